"""Spec of a ServeApplication.

As with the other kinds, these models are the only source of the CRD, the JSON schema and the API page.
"""

from typing import Annotated

from pydantic import Field

from daybreak.api.gates.access import Access
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.rollout import Rollout
from daybreak.api.gates.sleep import Hold, Sleep, State
from daybreak.api.ray.model import DEFAULT_DEVICE, EngineArgs, Model
from daybreak.api.ray.runtime import RayPods
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import (
    Toleration,
    list_by,
)
from daybreak.api.schema.scalar_types import Labels, ModelName, ObjectName
from daybreak.api.serveapplication.deployment import Deployment, WorkerGroup
from daybreak.api.serveapplication.route import IMPORT_PATH, Route

WORKING_DIR = r"^((s3|gs|https)://[!-~]+\.zip|(pvc|image)://[!-~]+)$"


class Code(ApiModel):
    """Source of the Python code, in addition to the code in the image."""

    rules = (
        Rule(
            "has(self.configMap) != has(self.workingDir)",
            "code comes from configMap or from workingDir: write one of them",
            lambda self: (self.config_map is None) != (self.working_dir is None),
        ),
        Rule(
            "!has(self.pip)",
            "code.pip is not supported, since every wake would install the packages again: install them into "
            "an image FROM the Ray image, and set runtime.image",
            lambda self: self.pip is None,
        ),
    )

    config_map: ObjectName | None = None
    """Name of a ConfigMap in the namespace; each key is a file. A change of its files is rolled out by a
    second Ray cluster, like a change of the pods."""
    working_dir: Annotated[str, Field(max_length=1024, pattern=WORKING_DIR)] | None = None
    """Location of the code. `pvc://claim/path` and `image://registry/name:tag#path` are mounted. Ray
    itself fetches a zip file at `s3://`, `gs://` or `https://` as its `working_dir`."""
    pip: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=64)] | None = None
    """Always rejected. Packages belong in `runtime.image`: with Ray's `runtime_env`, every wake would
    install them again."""


class Devices(ApiModel):
    """Accelerators of deployments that request some, and the nodes that have them."""

    resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] = DEFAULT_DEVICE
    """Kubernetes extended resource of one accelerator."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that the pods of these deployments tolerate."""


class ServeApplicationSpec(ApiModel):
    """Custom Ray Serve code, as one application."""

    rules = (
        Rule(
            "!has(self.routes) || self.routes.size() == 0 || self.protocol == 'Any'",
            "routes belong to protocol Any: with OpenAI and V2 the protocol says which paths pass",
            lambda self: not self.routes or self.protocol is Protocol.ANY,
        ),
        Rule(
            "(self.protocol == 'OpenAI') == (has(self.models) && self.models.size() > 0)",
            "models belong to protocol OpenAI, which needs at least one",
            lambda self: (self.protocol is Protocol.OPENAI) == bool(self.models),
        ),
    )

    import_path: Annotated[str, Field(max_length=256, pattern=IMPORT_PATH)]
    """Import path of the application, as `module:name`. It names an application, or a function that builds
    one from `args`."""
    args: EngineArgs | None = None
    """Arguments of the function of `importPath`, of any JSON type, by name."""
    code: Code | None = None
    """Source of the code. If unset, the image contains the code."""
    deployments: Annotated[list[Deployment], Field(min_length=1, max_length=32)] = Field(
        json_schema_extra=list_by("name")
    )
    """Deployments of the application, each by its name in the code. Settings here take precedence over
    those in the code. List all deployments, because Daybreak creates pods for the listed ones."""
    worker_groups: Annotated[list[WorkerGroup], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Worker groups for deployments that name them in `workerGroup`. Daybreak derives the other groups
    from the deployments. It creates one group for all deployments without accelerators, one for each
    deployment with accelerators, and one for all that name the same group."""
    accelerator: Devices = Field(default_factory=Devices)
    """Accelerators that deployments request."""
    protocol: Protocol = Protocol.ANY
    """Protocol of the requests that the gateway forwards. `Any`: every method, path and body. `V2`: the
    same below `/v2`. `OpenAI`: the paths and names of OpenAI's API."""
    models: Annotated[list[ModelName], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Model names in requests, with protocol `OpenAI`. `/v1/models` lists them, and the address `llm` of
    the namespace routes them to this application."""
    llms: Annotated[list[Model], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """LLMs in the same application, like `models` of an LLMService. Each LLM has its own worker pods, and
    Ray Serve LLM builds it. The function of `importPath` receives the LLMs in its argument, as `models` by
    name, and passes them to the deployments that call them. LLMs are reachable by handle only, and sleep
    and wake with the application. They do not support `cache`, `lora`, `routing`, `volumes` and
    `volumeMounts`."""
    routes: Annotated[list[Route], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("prefix")
    )
    """Path prefixes that the gateway forwards with protocol `Any`, some of them to separate Serve
    applications. Other paths receive 404. If unset, every path is forwarded to the application of
    `importPath`."""
    runtime: RayPods = Field(default_factory=RayPods)
    """Ray pods of the application."""
    rollout: Rollout = Field(default_factory=Rollout)
    """Rollout of changes to running pods."""
    state: State | None = None
    """Forced state, regardless of traffic: `Asleep` (requests are rejected, and wake nothing) or `Awake`.
    The annotation `daybreak.dev/state` has the same effect and takes precedence. If unset, traffic
    decides."""
    sleep: Sleep | None = None
    """Sleep policy for releasing the accelerators: of the worker pods (`depth: Workers`), or of the whole
    Ray cluster. If unset, the application never sleeps."""
    hold: Hold | None = None
    """Settings for requests that the gateway holds while the application wakes."""
    access: Access | None = None
    """Clients that may use the application. Defaults to all clients that can reach its address."""
