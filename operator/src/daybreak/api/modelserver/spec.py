"""What a person asks for: the spec of a ModelServer.

As with the other kinds, the models here are the one source of the CRD, the JSON schema and the API page.
"""

import re
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.source import OF_THE_HUB, Source
from daybreak.api.common.task import Task
from daybreak.api.gates.access import Access
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.rollout import OnFailure, RolloutStrategy
from daybreak.api.gates.sleep import Hold, Sleep, SleepDepth, State
from daybreak.api.modelserver.profiles import CUSTOM, EngineName
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.ray.model import (
    COMMIT_PATTERN,
    Accelerator,
    AcceleratorKind,
    EngineArgs,
    Parallelism,
    WorkerResources,
)
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import EnvVar, LocalObjectReference, SecretKeySource, list_by
from daybreak.api.schema.scalar_types import AutoOrDuration, Duration, ModelName, ObjectName, PositiveDuration

MOST_OF_A_NODE = 64
"""Most accelerators of a pod of a replica on several nodes: as many as share a layer at most."""
Argument = Annotated[str, Field(max_length=4096)]
Path = Annotated[str, Field(max_length=256, pattern="^/[!-~]*$")]


class ServedModel(ApiModel):
    """The model that the engine serves."""

    rules = (
        *OF_THE_HUB,
        Rule(
            "!self.trustRemoteCode || !self.source.startsWith('hf://') || "
            f"(has(self.revision) && self.revision.matches('{COMMIT_PATTERN}'))",
            "trustRemoteCode runs code from the repository: pin it with revision, a commit of 40 hex digits",
            lambda self: (
                not self.trust_remote_code
                or not self.source.startswith("hf://")
                or re.fullmatch(COMMIT_PATTERN, self.revision or "") is not None
            ),
        ),
    )

    name: ModelName
    """What clients send as `model`."""
    source: Source
    """Where the weights are: `hf://owner/name`, `pvc://claim/path`, `image://registry/name:tag#path` (an
    image volume) or `file:///path` (in the engine's image). `s3://bucket/prefix` and `gs://bucket/prefix` for
    an engine that reads them itself, as vLLM does with `engineArgs.load_format: runai_streamer`."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// model; a commit pins it."""
    token: SecretKeySource | None = None
    """Hugging Face token of a gated model, from a Secret: the engine's variable `HF_TOKEN`."""
    trust_remote_code: bool = False
    """Whether code from the model's repository may run in the pods, with engines that can be told so: vllm,
    sglang, tgi and tensorrt-llm. An hf:// model then needs a commit as `revision`."""
    task: Task | None = None
    """API by which the operator probes the model before requests are released: `Completions`, `Chat`,
    `Embeddings`, `Rerank`, `Score`, `Classify` or `Transcription`. Defaults to a task that the engine reports
    in `/v1/models` or `/openapi.json`, or else to the first one that it serves."""


class Autoscaling(ApiModel):
    """More replicas while many requests are in progress."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Most replicas. The fewest are those of `replicas`."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Requests in progress, those that wait included, for each replica that is aimed at. Unset: 16, or
    `maxOngoingRequests` where that is less."""
    upscale_delay: Duration = "10s"
    """How long more replicas must be wanted before they are added."""
    downscale_delay: Duration = "5m"
    """How long fewer replicas must be wanted before pods go."""


class ServerRollout(ApiModel):
    """How changes reach running pods. What restarts nothing (`replicas`, `autoscaling`, `maxOngoingRequests`,
    `sleep`, `hold`, `access`) is always changed at once."""

    strategy: Literal[RolloutStrategy.AUTO, RolloutStrategy.BLUE_GREEN, RolloutStrategy.REPLACE] = (
        RolloutStrategy.AUTO
    )
    """`BlueGreen`: one new pod beside those that run; when it has answered, the others are replaced one by
    one. It needs room for one pod more. `Replace`: requests are held, those in progress end, all pods go, and
    new ones come; needs no spare accelerator. `Auto`: `BlueGreen` where room is free now for one pod more,
    else `Replace`."""
    on_failure: OnFailure = OnFailure.ROLL_BACK
    """What comes of a change that cannot start: `RollBack` to the last revision that answered, or `Pause`."""
    deadline: AutoOrDuration = "Auto"
    """How long a change may take from its first pod to its first answer; what takes longer has failed.
    `Auto`: three times what nearly every start took, between 15 minutes and 2 hours; 30 minutes without
    one."""
    paused: bool = False
    """Begins no change of what runs. The annotation `daybreak.dev/rollout-paused` does the same."""
    revision: Annotated[int, Field(ge=1)] | None = None
    """Number of an earlier revision that is run instead of what the spec says of the pods. The annotation
    `daybreak.dev/rollout-revision` does the same and takes precedence. Unset: what the spec says."""
    revision_history_limit: Annotated[int, Field(ge=1, le=100)] = 10
    """How many revisions are kept that are not in use."""


def _of_custom(field: str, name: str) -> Rule:
    return Rule(
        f"self.engine == '{CUSTOM}' || !has(self.{name})",
        f"{name} belongs to engine {CUSTOM}: the others have their own",
        lambda self: self.engine == CUSTOM or getattr(self, field) is None,
    )


class ModelServerSpec(ApiModel):
    """An engine in a container, with one model."""

    rules = (
        _of_custom("command", "command"),
        _of_custom("args", "args"),
        _of_custom("port", "port"),
        _of_custom("readiness_path", "readinessPath"),
        _of_custom("metrics_path", "metricsPath"),
        _of_custom("metrics_port", "metricsPort"),
        Rule(
            "!has(self.metricsPort) || has(self.metricsPath)",
            "metricsPort needs metricsPath",
            lambda self: self.metrics_port is None or self.metrics_path is not None,
        ),
        Rule(
            "!has(self.accelerator) || self.accelerator.kind != 'cpu' || !has(self.parallelism)"
            " || (self.parallelism.tensor == 1 && self.parallelism.pipeline == 1)",
            "accelerator kind cpu has no parallelism: leave tensor and pipeline at 1",
            lambda self: (
                self.accelerator.kind is not AcceleratorKind.CPU
                or self.parallelism.tensor == self.parallelism.pipeline == 1
            ),
        ),
        Rule(
            "!has(self.nodes) || self.nodes == 1 || (has(self.parallelism) &&"
            " self.parallelism.tensor * self.parallelism.pipeline % self.nodes == 0)",
            "parallelism.tensor times parallelism.pipeline must be a multiple of nodes",
            lambda self: self.parallelism.tensor * self.parallelism.pipeline % self.nodes == 0,
        ),
        Rule(
            "!has(self.nodes) || self.nodes == 1 || !has(self.parallelism) ||"
            f" self.parallelism.tensor * self.parallelism.pipeline <= {MOST_OF_A_NODE} * self.nodes",
            f"with nodes above 1 a pod has at most {MOST_OF_A_NODE} accelerators: use more nodes",
            lambda self: (
                self.nodes == 1
                or self.parallelism.tensor * self.parallelism.pipeline <= MOST_OF_A_NODE * self.nodes
            ),
        ),
        Rule(
            "!has(self.accelerator) || !has(self.accelerator.type)",
            "accelerator.type is Ray's name of an accelerator: use accelerator.nodeSelector",
            lambda self: self.accelerator.type is None,
        ),
        Rule(
            "!has(self.autoscaling) || self.autoscaling.maxReplicas >= self.replicas",
            "autoscaling.maxReplicas must not be below replicas",
            lambda self: self.autoscaling is None or self.autoscaling.max_replicas >= self.replicas,
        ),
        Rule(
            "!has(self.sleep) || (self.sleep.depth == 'Workers' && !has(self.sleep.clusterAfterIdle))",
            "a ModelServer has no Ray cluster: leave sleep.depth and sleep.clusterAfterIdle out",
            lambda self: (
                self.sleep is None
                or (self.sleep.depth is SleepDepth.WORKERS and self.sleep.cluster_after_idle is None)
            ),
        ),
    )

    engine: EngineName
    """`vllm`, `sglang`, `llama.cpp`, `tgi`, `tensorrt-llm`, `triton`, `ollama`, `friendli`, `mlflow`, or
    `custom` for any image that answers over HTTP; or one of the installation's own (the chart's value
    `engines`)."""
    model: ServedModel
    """The model."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The engine's image. Unset: with vllm the operator's default for Ray pods, which has the pinned vLLM;
    with an engine of the installation's own the one that it names. The others need one."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls it."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Secrets for pulling it."""
    command: Annotated[list[Argument], Field(max_length=64)] | None = None
    """Command of a custom engine. Unset: the image's own. In it, as in `args`, `{weights}` stands for the
    model's place (a Hugging Face repository, a path), `{model}` for its name, `{revision}` for its revision,
    `{tensor}` and `{pipeline}` for the accelerators of one replica, `{port}` for the port, and `{drain}` for
    the seconds in which requests may end, and `{cache}` for a directory that may be written to."""
    args: Annotated[list[Argument], Field(max_length=256)] | None = None
    """Arguments of a custom engine."""
    engine_args: EngineArgs | None = None
    """The engine's arguments by its own names. vLLM's (such as `max_model_len`) are checked against the list
    of its version where the image is the operator's default, or one of vLLM's whose tag says the same version
    (docs/versions.md). Those of other engines, such as sglang's `mem_fraction_static`, are passed on as they
    are. Arguments that have a field of their own here are refused, and so are all with `ollama` and `custom`,
    which take none. With vLLM, images, audio and video by URL are off unless `allowed_media_domains` names
    hosts."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Where a custom engine listens. Unset: 8000."""
    readiness_path: Path | None = None
    """Path at which a custom engine answers 200 as soon as requests may come; `{model}` stands there for the
    model's name. Unset: `/health`, or with protocol `V2` `/v2/models/{model}/ready`."""
    metrics_path: Path | None = None
    """Path at which a custom engine has metrics in Prometheus' format. Unset: it has none."""
    metrics_port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Where they are. Unset: at its port."""
    protocol: Protocol | None = None
    """What the gateway lets through: `OpenAI`, the paths of OpenAI's API, and the address `llm` knows its
    model; `V2`, any request below `/v2` (the Open Inference Protocol); or `Any` method, path and body, for an
    engine with an API of its own. Unset: what the engine speaks by itself; of a custom one `OpenAI`."""
    parallelism: Parallelism = Field(default_factory=Parallelism)
    """Accelerators of one replica, tensor x pipeline, all in one pod unless `nodes` says otherwise. Engines
    that can be told of it are: not triton, ollama and mlflow."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods of one replica, each of which may stand on a node of its own and has an equal part of its
    accelerators. More than 1 needs LeaderWorkerSet in the cluster, and an engine that can be spread: vllm,
    sglang, or one of the installation's own."""
    accelerator: Accelerator = Field(default_factory=Accelerator)
    """What it computes on."""
    resources: WorkerResources = Field(default_factory=WorkerResources)
    """Cores and memory of one replica."""
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    """Replicas while it is awake, each of them a pod; what `kubectl scale` writes. With `autoscaling`: the
    fewest."""
    autoscaling: Autoscaling | None = None
    """Replicas by the requests in progress, as gateways count them. Unset: as many as `replicas` says."""
    max_ongoing_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Most requests that one replica takes at once; more wait in the gateway."""
    graceful_shutdown_timeout: PositiveDuration = "2m"
    """How long a stopping replica may take to finish its requests, as far as its engine does so."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment of the engine."""
    service_account_name: ObjectName | None = None
    """A ServiceAccount of one's own, for workload identity. Unset: Daybreak makes one without rights."""
    pod_template: PodTemplate | None = None
    """What to add to the pods; the engine's container is called `engine`."""
    rollout: ServerRollout = Field(default_factory=ServerRollout)
    """How a change of the pods reaches what runs, and what comes of one that cannot start."""
    state: State | None = None
    """Keeps it `Asleep` (requests are refused, and wake nothing) or `Awake`, whatever the traffic. The
    annotation `daybreak.dev/state` does the same and takes precedence. Unset: the traffic decides."""
    sleep: Sleep | None = None
    """When its pods go. Unset: never."""
    hold: Hold | None = None
    """How requests wait while it wakes."""
    access: Access | None = None
    """Who may use it. Unset: everybody who can reach its address."""
