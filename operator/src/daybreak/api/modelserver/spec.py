"""Spec of a ModelServer: its desired state.

As with the other kinds, the CRD, the JSON schema and the API page are generated from the models here.
"""

import re
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.source import OF_THE_HUB, EngineSource
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
"""Maximum number of accelerators per pod of a multi-node replica. It is the maximum of
`parallelism.tensor`."""
Argument = Annotated[str, Field(max_length=4096)]
Path = Annotated[str, Field(max_length=256, pattern="^/[!-~]*$")]


class ServedModel(ApiModel):
    """Model that the engine serves."""

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
    """Model name that clients send as `model`."""
    source: EngineSource
    """Location of the weights: `hf://owner/name`, `pvc://claim/path`, `image://registry/name:tag#path` (an
    image volume) or `file:///path` (in the engine's image). `s3://bucket/prefix` and `gs://bucket/prefix`
    require an engine that reads buckets itself, such as vLLM with `engineArgs.load_format:
    runai_streamer`. `ollama://name:tag` requires engine `ollama`, which pulls the model from Ollama's
    library. `mlflow://name/version` and `mlflow://name@alias` require engine `mlflow` and the variable
    `MLFLOW_TRACKING_URI` in `env`."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an `hf://` model. A commit pins the model."""
    token: SecretKeySource | None = None
    """Hugging Face token for a gated model, from a Secret. The engine receives the token in the variable
    `HF_TOKEN`."""
    trust_remote_code: bool = False
    """True to allow code from the model's repository to run in the pods. The engines `vllm`, `sglang`, `tgi`
    and `tensorrt-llm` support this. An `hf://` model then requires a commit as `revision`."""
    task: Task | None = None
    """API with which the operator probes the model before the gateway releases requests: `Completions`,
    `Chat`, `Embeddings`, `Rerank`, `Score`, `Classify` or `Transcription`. Defaults to a task that the engine
    reports in `/v1/models` or `/openapi.json`; otherwise to the first task that the engine serves."""


class Autoscaling(ApiModel):
    """Autoscaling of replicas by the number of requests."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of replicas. The minimum is `replicas`."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Target number of requests per replica, including held requests. Defaults to 16, or to
    `maxOngoingRequests` if that is smaller."""
    upscale_delay: Duration = "10s"
    """Time for which the traffic must require more replicas before the operator adds them."""
    downscale_delay: Duration = "5m"
    """Time for which the traffic must require fewer replicas before the operator removes pods."""


class ServerRollout(ApiModel):
    """Rollout of changes to running pods.

    Fields that restart no pod (`replicas`, `autoscaling`, `maxOngoingRequests`, `sleep`, `hold`, `access`)
    always take effect immediately.
    """

    strategy: Literal[RolloutStrategy.AUTO, RolloutStrategy.BLUE_GREEN, RolloutStrategy.REPLACE] = (
        RolloutStrategy.AUTO
    )
    """Strategy of a change that replaces pods. `BlueGreen`: the operator adds one new pod, and replaces the
    other pods one by one after it has answered. This needs capacity for one more pod. `Replace`: the gateway
    holds new requests, requests in progress end, and the operator replaces all pods. This needs no spare
    accelerator. `Auto`: `BlueGreen` if capacity for one more pod is currently free; otherwise `Replace`."""
    on_failure: OnFailure = OnFailure.ROLL_BACK
    """Reaction to a change that cannot start: `RollBack` to the last revision that answered, or `Pause`."""
    deadline: AutoOrDuration = "Auto"
    """Maximum time of a change from its first pod to its first answer. A change that takes longer has failed.
    `Auto`: three times the 95th percentile of the measured start times, between 15 minutes and 2 hours; 30
    minutes if no start has been measured."""
    paused: bool = False
    """True to start no change of the running pods. The annotation `daybreak.dev/rollout-paused` has the same
    effect."""
    revision: Annotated[int, Field(ge=1)] | None = None
    """Number of an earlier revision to run instead of the pod settings in the spec. The annotation
    `daybreak.dev/rollout-revision` has the same effect and takes precedence. Defaults to the settings in the
    spec."""
    revision_history_limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Maximum number of unused revisions to keep."""


def _of_custom(field: str, name: str) -> Rule:
    return Rule(
        f"self.engine == '{CUSTOM}' || !has(self.{name})",
        f"{name} belongs to engine {CUSTOM}: the others have their own",
        lambda self: self.engine == CUSTOM or getattr(self, field) is None,
    )


class ModelServerSpec(ApiModel):
    """Desired state of an engine in a container with one model."""

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
    """Engine of the server: `vllm`, `sglang`, `llama.cpp`, `tgi`, `tensorrt-llm`, `triton`, `ollama`,
    `friendli`, `mlflow`, `custom` for any image that answers over HTTP, or an engine that the installation
    adds (chart value `engines`)."""
    model: ServedModel
    """Model that the server serves."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image of the engine. Required, except for `vllm` and for an added engine whose profile names an image.
    With `vllm`, defaults to the operator's image for Ray pods, which contains the pinned vLLM. With an added
    engine, defaults to the image of its profile."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of the engine's image."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Secrets for pulling the engine's image."""
    command: Annotated[list[Argument], Field(max_length=64)] | None = None
    """Command of a custom engine. Defaults to the image's command. `command` and `args` may contain
    placeholders. `{weights}` is the location of the model (a Hugging Face repository or a path), `{model}`
    its name, and `{revision}` its revision. `{tensor}` and `{pipeline}` are the accelerators of one replica,
    and `{nodes}` is the number of its pods. `{port}` is the port, `{drain}` the number of seconds in which
    requests may end, and `{cache}` a writable directory."""
    args: Annotated[list[Argument], Field(max_length=256)] | None = None
    """Arguments of a custom engine, with the placeholders of `command`."""
    engine_args: EngineArgs | None = None
    """Arguments of the engine, by the engine's names. vLLM's arguments (such as `max_model_len`) are checked
    against the list of the pinned version (docs/versions.md). This check needs the operator's default image,
    or an image of vLLM with a tag of that version. Arguments of other engines, such as `mem_fraction_static`
    of SGLang, are passed unchecked. Arguments for which the spec has a field are rejected. The engines
    `ollama` and `custom` accept no arguments here. With vLLM, images, audio and video by URL are disabled
    unless `allowed_media_domains` names hosts."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Port on which a custom engine listens. Defaults to 8000."""
    readiness_path: Path | None = None
    """Path at which a custom engine returns 200 as soon as it accepts requests. `{model}` is the placeholder
    for the model's name. Defaults to `/health`, or to `/v2/models/{model}/ready` with protocol `V2`."""
    metrics_path: Path | None = None
    """Path of a custom engine's metrics in Prometheus format. If unset, the engine has no metrics."""
    metrics_port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Port of a custom engine's metrics. Defaults to the port of the engine."""
    protocol: Protocol | None = None
    """Protocol that the gateway admits. `OpenAI`: the paths of OpenAI's API; the address `llm` also serves
    the model. `V2`: any request below `/v2` (the Open Inference Protocol). `Any`: any method, path and body,
    for an engine with another API. Defaults to the protocol of the engine, which is `OpenAI` for a custom
    engine."""
    parallelism: Parallelism = Field(default_factory=Parallelism)
    """Accelerators of one replica: `tensor` times `pipeline`, all in one pod unless `nodes` is above 1. The
    engines `llama.cpp`, `triton`, `ollama` and `mlflow` receive no argument for it."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of pods per replica. Each pod can run on a separate node and has an equal share of the replica's
    accelerators. A value above 1 needs LeaderWorkerSet in the cluster, and an engine that supports several
    nodes: `vllm`, `sglang`, or an engine that the installation adds."""
    accelerator: Accelerator = Field(default_factory=Accelerator)
    """Accelerators of the pods, and the nodes that the pods may use."""
    resources: WorkerResources = Field(default_factory=WorkerResources)
    """CPUs and memory of each pod."""
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of replicas while the server is awake, which `kubectl scale` sets. A replica is one pod, or
    `nodes` pods. With `autoscaling`, it is the minimum."""
    autoscaling: Autoscaling | None = None
    """Autoscaling by the number of requests that the gateways count. If unset, the number of replicas is
    `replicas`."""
    max_ongoing_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Maximum number of requests that one replica receives at once. Further requests wait in the gateway."""
    graceful_shutdown_timeout: PositiveDuration = "2m"
    """Maximum time in which a stopping replica may finish its requests, if the engine supports this."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Environment variables of the engine."""
    service_account_name: ObjectName | None = None
    """Custom ServiceAccount for the pods, for workload identity. Defaults to a ServiceAccount without
    permissions, which Daybreak creates."""
    pod_template: PodTemplate | None = None
    """Additions to the pods. The name of the engine's container is `engine`."""
    rollout: ServerRollout = Field(default_factory=ServerRollout)
    """Rollout of changes to running pods, and the reaction to a change that cannot start."""
    state: State | None = None
    """Forced state of the server, regardless of traffic: `Asleep` (requests are rejected and wake nothing) or
    `Awake`. The annotation `daybreak.dev/state` has the same effect and takes precedence. If unset, the
    traffic decides."""
    sleep: Sleep | None = None
    """Sleep settings: when the server releases its pods. If unset, the server never sleeps."""
    hold: Hold | None = None
    """Settings for requests held while the server wakes."""
    access: Access | None = None
    """Clients that may use the server. Defaults to all clients that can reach its address."""
