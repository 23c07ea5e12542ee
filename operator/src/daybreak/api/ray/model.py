"""Spec of one model: its weights, engine, accelerators, replicas and pods."""

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from daybreak.api.common.source import OF_THE_HUB, Source
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.ray.cache import ModelCache
from daybreak.api.ray.lora import Lora
from daybreak.api.ray.routing import Routing
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import (
    NamedVolume,
    SecretKeySource,
    Toleration,
    VolumeMount,
    list_by,
)
from daybreak.api.schema.scalar_types import (
    Duration,
    Labels,
    ModelName,
    ObjectName,
    PositiveDuration,
    Quantity,
)

DEFAULT_DEVICE = "nvidia.com/gpu"
"""Kubernetes extended resource of an accelerator if the spec names none."""
COMMIT_PATTERN = "^[0-9a-f]{40}$"
"""Pattern of a commit in a Hugging Face repository."""
EngineArgs = Annotated[
    dict[Annotated[str, Field(min_length=1)], Any],
    Field(max_length=128),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
            "maxProperties": 128,
        }
    ),
]
"""Values of any JSON type by name."""


def _left_to_the_operator(schema: dict[str, Any]) -> None:
    """Remove the default from the CRD.

    Otherwise every stored object would contain it, even if it has no meaning there.
    """
    schema.pop("default", None)


def _highest(replicas: "Replicas") -> int:
    return max(replicas.min, 1) if replicas.max is None else replicas.max


class Engine(ApiModel):
    """Inference engine of a model."""

    args: EngineArgs = Field(default_factory=dict)
    """vLLM's engine arguments by their vLLM names, such as `max_model_len` or `max_num_seqs`. Daybreak
    checks each argument against the list of the pinned vLLM, and rejects an unknown name with the nearest
    known one. It also rejects arguments that have a field here, such as `tensor_parallel_size` or
    `revision`. Images, audio and video by URL are off, because the engine would fetch any address that a
    client writes. `allowed_media_domains` lists the hosts that the engine may fetch from (`[]`: every
    host). The engine always accepts `data:` URLs."""


class Parallelism(ApiModel):
    """Distribution of one replica over accelerators: `tensor` times `pipeline` of them."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of accelerators that share each layer (vLLM's `tensor_parallel_size`). They are always on
    one node."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of groups of layers (vLLM's `pipeline_parallel_size`). Each group may run on another node."""


class AcceleratorKind(StrEnum):
    """Kind of processor that a model computes on."""

    GPU = "gpu"
    CPU = "cpu"


class DeviceClaim(ApiModel):
    """Accelerators by Dynamic Resource Allocation (DRA) instead of an extended resource."""

    template_name: ObjectName
    """Name of a ResourceClaimTemplate in the service's namespace. Each worker pod gets its own
    ResourceClaim from it."""
    devices: Annotated[int, Field(ge=1, le=4096)]
    """Number of accelerators in one ResourceClaim. Daybreak does not read the template, so this number
    must equal the template's. It must also equal the accelerators of one worker pod: `parallelism.tensor`,
    times `parallelism.pipeline` if a replica is one pod."""


class Accelerator(ApiModel):
    """Accelerators of a replica, and the nodes that have them."""

    rules = (
        Rule(
            "!has(self.claim) || self.kind != 'cpu'",
            "accelerator.claim requires accelerator.kind gpu; remove it for kind cpu",
            lambda self: self.claim is None or self.kind is not AcceleratorKind.CPU,
        ),
        Rule(
            f"!has(self.claim) || !has(self.resource) || self.resource == '{DEFAULT_DEVICE}'",
            "set accelerator.resource or accelerator.claim, not both",
            lambda self: self.claim is None or self.resource == DEFAULT_DEVICE,
        ),
        Rule(
            "!has(self.type) || self.kind != 'cpu'",
            "accelerator.type requires accelerator.kind gpu; remove it for kind cpu",
            lambda self: self.type is None or self.kind is not AcceleratorKind.CPU,
        ),
    )

    kind: AcceleratorKind = AcceleratorKind.GPU
    """Kind of processor: `gpu`, or `cpu` for small models and trials."""
    resource: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253, json_schema_extra=_left_to_the_operator
        ),
    ] = DEFAULT_DEVICE
    """Kubernetes extended resource of one accelerator. Defaults to `nvidia.com/gpu`, or to none with kind
    `cpu` or with a claim."""
    claim: DeviceClaim | None = None
    """Accelerators by a ResourceClaim (DRA). Daybreak then requests no extended resource."""
    type: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Ray's name of the accelerator, such as `H100`, to distinguish several kinds in one service. Defaults
    to any. `nodeSelector` determines the node of a pod."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that the worker pods tolerate."""


class WorkerResources(ApiModel):
    """Resources that one worker pod requests in addition to its accelerators."""

    cpu: Quantity | None = None
    """CPU request. There is no limit, so a pod may use free CPUs. Defaults to one CPU for each accelerator
    and one for the replica's own actor."""
    memory: Quantity | None = None
    """Memory request and limit. Defaults to 8Gi plus 16Gi for each GPU, or to 5Gi on the CPU."""
    shared_memory: Quantity | None = None
    """Size of `/dev/shm`, which counts against memory. Defaults to 2Gi for each GPU, which NCCL and the
    object store use, or to 1Gi on the CPU."""


class Replicas(ApiModel):
    """Number of replicas of a model, and settings of Ray Serve's autoscaling."""

    rules = (
        Rule(
            "!has(self.max) || self.max >= self.min",
            "replicas.max must not be below replicas.min",
            lambda self: _highest(self) >= self.min,
        ),
        Rule(
            "!has(self.initial) || (self.initial >= self.min && "
            "self.initial <= (has(self.max) ? self.max : (self.min > 1 ? self.min : 1)))",
            "replicas.initial must lie between replicas.min and replicas.max",
            lambda self: self.initial is None or self.min <= self.initial <= _highest(self),
        ),
    )

    min: Annotated[int, Field(ge=0, le=1000)] = 1
    """Minimum number of replicas while the model is awake, at least 1. At 0, the model sleeps when it is
    idle for `downscaleToZeroDelay`, even if `sleep` is unset."""
    max: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of replicas. Defaults to the larger of `min` and 1, which means no autoscaling above
    `min`."""
    initial: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Number of replicas at the start. Defaults to the larger of `min` and 1, so that a new model proves
    once that it works. At 0, the model sleeps until its first request."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100000)] | None = None
    """Number of requests in progress per replica that autoscaling aims at. Defaults to 16, or to
    `serve.maxOngoingRequests` if that is less."""
    upscale_delay: Duration = "10s"
    """Time for which more replicas must be required before Serve adds them."""
    downscale_delay: Duration = "5m"
    """Time for which fewer replicas must be required before Serve removes one."""
    downscale_to_zero_delay: Duration | None = None
    """Idle time before a model with `min: 0` sleeps. Defaults to `sleep.afterIdle`, or to `downscaleDelay`
    if `sleep` is unset."""
    upscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Factor of the upscaling steps; above 1 is faster. Defaults to 1."""
    downscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Factor of the downscaling steps; below 1 is slower. Defaults to 1."""
    look_back_period: PositiveDuration = "30s"
    """Period over which autoscaling averages the requests in progress."""


class Serve(ApiModel):
    """Ray Serve's settings of a model's deployment."""

    rules = (
        Rule(
            "!has(self.maxQueuedRequests) || self.maxQueuedRequests != 0",
            "serve.maxQueuedRequests is -1 (no limit) or at least 1",
            lambda self: self.max_queued_requests != 0,
        ),
    )

    max_ongoing_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Maximum number of requests that one replica processes at once; the engine batches them."""
    max_queued_requests: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    """Maximum number of requests that wait for a replica. It applies to each gateway pod, which answers
    further requests with 429, and to each replica, which leaves further requests to other replicas. With
    -1, a gateway pod queues as many requests as all replicas process at once, and a replica four times
    `maxOngoingRequests`, but each at least 1,000. With `runtime.directIngress: false`, the field also
    limits the requests that wait in Serve, which answers further requests with 503; -1 then means no limit
    in Serve."""
    health_check_period: PositiveDuration = "10s"
    """Interval at which Serve checks a replica."""
    health_check_timeout: PositiveDuration = "30s"
    """Maximum duration of a health check before it counts as failed."""
    graceful_shutdown_wait: Duration = "2s"
    """Interval at which a stopping replica checks if its requests have finished."""
    graceful_shutdown_timeout: Duration = "2m"
    """Maximum time for a stopping replica to finish its requests, including streams. The pods stop no
    sooner than this, so a change requires new pods."""


class Placement(StrEnum):
    """Placement of the accelerators of one replica (Ray's placement group strategies)."""

    STRICT_PACK = "STRICT_PACK"
    PACK = "PACK"


class Model(ApiModel):
    """Model of a service."""

    rules = (
        *OF_THE_HUB,
        Rule(
            "!has(self.cache) || ['hf', 's3', 'gs'].exists(s, self.source.startsWith(s + '://'))",
            "cache requires an hf://, s3:// or gs:// source: other sources are already volumes or files",
            lambda self: self.cache is None or self.source.startswith(("hf://", "s3://", "gs://")),
        ),
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
        Rule(
            "self.accelerator.kind != 'cpu' || "
            "(self.parallelism.tensor == 1 && self.parallelism.pipeline == 1)",
            "accelerator kind cpu has no parallelism: leave tensor and pipeline at 1",
            lambda self: (
                self.accelerator.kind is not AcceleratorKind.CPU
                or self.parallelism.tensor == self.parallelism.pipeline == 1
            ),
        ),
    )

    name: ModelName
    """Name that clients send as `model`."""
    source: Source
    """Location of the weights: `hf://owner/name`, `s3://bucket/prefix`, `gs://bucket/prefix`,
    `pvc://claim/path`, `image://registry/name:tag#path` (an image volume) or `file:///path` (in the Ray
    image)."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an `hf://` model; a commit pins it."""
    token: SecretKeySource | None = None
    """Hugging Face token of a gated model, from a Secret."""
    cache: ModelCache | None = None
    """Cache of the weights in a PersistentVolumeClaim, which a Job fills once. If unset, each worker pod
    fetches the weights itself."""
    trust_remote_code: bool = False
    """If true, code from the model's repository may run in the pods. An `hf://` model then needs a commit
    as `revision`."""
    engine: Engine = Field(default_factory=Engine)
    """Settings of the inference engine."""
    lora: Lora | None = None
    """LoRA adapters, each with its own model name. If unset, the engine accepts no adapters. Setting or
    removing this field restarts the replicas."""
    parallelism: Parallelism = Field(default_factory=Parallelism)
    """Distribution of one replica over accelerators."""
    placement: Placement | None = None
    """Placement of a replica's accelerators. `STRICT_PACK`: all accelerators in one pod. `PACK`: one pod
    for each pipeline stage, on several nodes if necessary. Defaults to `STRICT_PACK` if `tensor` is above
    1 and `pipeline` is 1; otherwise to `PACK`. For a replica with one accelerator, both mean the same."""
    accelerator: Accelerator = Field(default_factory=Accelerator)
    """Accelerators that the model computes on."""
    resources: WorkerResources = Field(default_factory=WorkerResources)
    """CPUs and memory of one worker pod."""
    replicas: Replicas = Field(default_factory=Replicas)
    """Number of replicas, and autoscaling."""
    serve: Serve = Field(default_factory=Serve)
    """Ray Serve's settings of the deployment."""
    routing: Routing | None = None
    """Policy that chooses a replica for a request. Defaults to the least busy replica; with
    `runtime.directIngress: false`, to Serve's default."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """Additional volumes for this model's worker pods."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Mounts of the model's or `runtime.volumes` in the model's Ray containers."""
    pod_template: PodTemplate | None = None
    """Additions to this model's worker pods."""
