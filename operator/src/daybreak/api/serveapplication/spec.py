"""What a person asks for: the spec of a ServeApplication.

As with the other kinds, the models here are the one source of the CRD, the JSON schema and the API page.
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
    """Where the Python code comes from, beside what the image has."""

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
    """A ConfigMap of the namespace: each key is a file. A change of its files is rolled out by a second Ray
    cluster, as a change of the pods is."""
    working_dir: Annotated[str, Field(max_length=1024, pattern=WORKING_DIR)] | None = None
    """`pvc://claim/path` or `image://registry/name:tag#path`, mounted; or a zip file at `s3://`, `gs://` or
    `https://`, which Ray itself fetches as its `working_dir`."""
    pip: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=64)] | None = None
    """Always refused. Packages belong in `runtime.image`: as Ray's `runtime_env`, every wake would install
    them again."""


class Devices(ApiModel):
    """Accelerators of deployments that ask for some, and the nodes that have them."""

    resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] = DEFAULT_DEVICE
    """Kubernetes' extended resource of one accelerator."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that their pods tolerate."""


class ServeApplicationSpec(ApiModel):
    """Ray Serve code of one's own, as one application."""

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
    """Where the application is: `module:name`, of an application or of a function that builds one from
    `args`."""
    args: EngineArgs | None = None
    """Arguments of that function, of any JSON type, by name."""
    code: Code | None = None
    """Where the code comes from. Unset: the image has it."""
    deployments: Annotated[list[Deployment], Field(min_length=1, max_length=32)] = Field(
        json_schema_extra=list_by("name")
    )
    """The application's deployments, each by the name that it has in the code. Settings here go before those
    in the code; all deployments should stand here, since pods are made for these."""
    worker_groups: Annotated[list[WorkerGroup], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Pods for deployments that name them in `workerGroup`. Other groups follow from the deployments: one
    for all that ask for no accelerator, one for each that does, and one for all that name the same group."""
    accelerator: Devices = Field(default_factory=Devices)
    """The accelerators that deployments ask for."""
    protocol: Protocol = Protocol.ANY
    """What the gateway lets through: `Any` method, path and body; `V2`, the same below `/v2`; or `OpenAI`,
    the paths and names of OpenAI's API."""
    models: Annotated[list[ModelName], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """With protocol OpenAI: names that requests bear. They are listed in `/v1/models`, and lead here from the
    address `llm` of the namespace."""
    llms: Annotated[list[Model], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """LLMs in the same application, as `models` of an LLMService: each has worker pods of its own and is
    built by Ray Serve LLM. The function of `importPath` finds them in its argument, as `models` by their
    names, to be handed to the deployments that call them. They are reached by handle alone, and fall asleep
    and wake with the application. `cache`, `lora`, `routing`, `volumes` and `volumeMounts` are not for
    them."""
    routes: Annotated[list[Route], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("prefix")
    )
    """With protocol Any: the path prefixes that pass, and Serve applications of their own at some of them.
    Others are answered with 404. Unset: every path passes, to the application of `importPath`."""
    runtime: RayPods = Field(default_factory=RayPods)
    """The Ray pods."""
    rollout: Rollout = Field(default_factory=Rollout)
    """How changes reach running pods."""
    state: State | None = None
    """Keeps it `Asleep` (requests are refused, and wake nothing) or `Awake`, whatever the traffic. The
    annotation `daybreak.dev/state` does the same and takes precedence. Unset: the traffic decides."""
    sleep: Sleep | None = None
    """When its accelerators are given back: its worker pods (`depth: Workers`), or its whole Ray cluster.
    Unset: never."""
    hold: Hold | None = None
    """How requests wait while it wakes."""
    access: Access | None = None
    """Who may use it. Unset: everybody who can reach its address."""
