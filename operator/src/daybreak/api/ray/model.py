"""What a person asks for of one model: its weights, engine, accelerators, replicas and pods."""

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
"""Kubernetes' extended resource of an accelerator where none is named."""
COMMIT_PATTERN = "^[0-9a-f]{40}$"
"""A commit of a Hugging Face repository."""
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
    """Keep a default out of the CRD: else every stored object would say it, also where it has no meaning."""
    schema.pop("default", None)


def _highest(replicas: "Replicas") -> int:
    return max(replicas.min, 1) if replicas.max is None else replicas.max


class Engine(ApiModel):
    """The inference engine of a model."""

    args: EngineArgs = Field(default_factory=dict)
    """vLLM's engine arguments by vLLM's own names (such as `max_model_len` or `max_num_seqs`). Each is
    checked against the list of the pinned vLLM; an unknown name is refused with the nearest one.
    Arguments that have a field of their own here (such as tensor_parallel_size or revision) are refused.
    Images, audio and video by URL are off, since the engine would fetch any address a client writes:
    `allowed_media_domains` names the hosts that it may ask (`[]`: every host). What comes as a `data:` URL is
    always taken."""


class Parallelism(ApiModel):
    """How one replica of a model is spread over accelerators: tensor x pipeline of them."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Accelerators that share each layer (vLLM's tensor_parallel_size): they belong on one node."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Groups of layers (vLLM's pipeline_parallel_size): each may stand on a node of its own."""


class AcceleratorKind(StrEnum):
    """What a model computes on."""

    GPU = "gpu"
    CPU = "cpu"


class DeviceClaim(ApiModel):
    """Accelerators by Dynamic Resource Allocation (DRA) instead of an extended resource."""

    template_name: ObjectName
    """A ResourceClaimTemplate of the service's namespace. Each worker pod gets a claim of its own from it."""
    devices: Annotated[int, Field(ge=1, le=4096)]
    """How many accelerators one claim holds. Nothing of the template is read: this number must be that of the
    template, and what one worker pod needs, which is `parallelism.tensor`, times `parallelism.pipeline` where
    a replica is one pod."""


class Accelerator(ApiModel):
    """What a replica computes on, and on which nodes."""

    rules = (
        Rule(
            "!has(self.claim) || self.kind != 'cpu'",
            "accelerator claim belongs to kind gpu: leave it out on the CPU",
            lambda self: self.claim is None or self.kind is not AcceleratorKind.CPU,
        ),
        Rule(
            f"!has(self.claim) || !has(self.resource) || self.resource == '{DEFAULT_DEVICE}'",
            "accelerators come by resource or by claim, not by both",
            lambda self: self.claim is None or self.resource == DEFAULT_DEVICE,
        ),
        Rule(
            "!has(self.type) || self.kind != 'cpu'",
            "accelerator type belongs to kind gpu: leave it out on the CPU",
            lambda self: self.type is None or self.kind is not AcceleratorKind.CPU,
        ),
    )

    kind: AcceleratorKind = AcceleratorKind.GPU
    """`gpu`, or `cpu` for small models and trials."""
    resource: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253, json_schema_extra=_left_to_the_operator
        ),
    ] = DEFAULT_DEVICE
    """Kubernetes' extended resource of one accelerator. Unset: `nvidia.com/gpu`; none with kind cpu, or with
    a claim."""
    claim: DeviceClaim | None = None
    """Accelerators by a claim (DRA) instead: then no extended resource is asked for."""
    type: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Ray's name of the accelerator, such as `H100`, to tell several kinds in one service apart. Unset: any.
    Which node a pod gets is up to `nodeSelector`."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints that the worker pods tolerate."""


class WorkerResources(ApiModel):
    """What one worker pod asks of its node, beside its accelerators."""

    cpu: Quantity | None = None
    """Cores to request; there is no limit, so a pod may use what is free. Unset: one for each accelerator
    and one for the replica's own actor."""
    memory: Quantity | None = None
    """Memory, request and limit. Unset: 8Gi and 16Gi more for each GPU; 5Gi on the CPU."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts against memory. Unset: 2Gi for each GPU (NCCL and the object
    store use it), 1Gi on the CPU."""


class Replicas(ApiModel):
    """How many replicas a model has, and what moves that number (Ray Serve's autoscaling)."""

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
    """Fewest replicas while the model is awake, one at least. At 0 it sleeps when nobody asks, also where
    `sleep` is not set: after `downscaleToZeroDelay`."""
    max: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Most replicas. Unset: the larger of `min` and 1, that is, no autoscaling above `min`."""
    initial: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Replicas at the start. Unset: the larger of `min` and 1, so that a model proves itself once. At 0 it
    sleeps until it is asked for the first time."""
    target_ongoing_requests: Annotated[float, Field(gt=0, le=100000)] | None = None
    """Requests in progress for each replica that autoscaling aims at. Unset: 16, or
    `serve.maxOngoingRequests` where that is less."""
    upscale_delay: Duration = "10s"
    """How long more replicas must be wanted before they are added."""
    downscale_delay: Duration = "5m"
    """How long fewer replicas must be wanted before one is removed."""
    downscale_to_zero_delay: Duration | None = None
    """How long nobody must have asked before a model with `min: 0` sleeps. Unset: `sleep.afterIdle`, or
    `downscaleDelay` where `sleep` is not set."""
    upscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Scales the steps upwards; above 1 is quicker. Unset: 1."""
    downscaling_factor: Annotated[float, Field(gt=0, le=100)] | None = None
    """Scales the steps downwards; below 1 is slower. Unset: 1."""
    look_back_period: PositiveDuration = "30s"
    """Over how long ongoing requests are averaged."""


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
    """Most requests that one replica takes at once; the engine batches them."""
    max_queued_requests: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    """Most requests that wait for a replica in a gateway pod, which answers 429 to more, and in a replica,
    which leaves more to others. -1: in a gateway pod as many as all replicas run at a time, in a replica four
    times `maxOngoingRequests`, and 1,000 at least. With `runtime.directIngress: false` the same in a gateway
    pod, and most that wait in Serve, which answers 503; -1: any number there."""
    health_check_period: PositiveDuration = "10s"
    """How often Serve checks a replica."""
    health_check_timeout: PositiveDuration = "30s"
    """How long a check may take before it counts as failed."""
    graceful_shutdown_wait: Duration = "2s"
    """Pause between looks at whether a stopping replica has finished its requests."""
    graceful_shutdown_timeout: Duration = "2m"
    """How long a stopping replica may take to finish its requests, streams included. The pods stop no sooner
    than this, so a change of it needs new pods."""


class Placement(StrEnum):
    """How the accelerators of one replica are placed (Ray's placement group strategies)."""

    STRICT_PACK = "STRICT_PACK"
    PACK = "PACK"


class Model(ApiModel):
    """One model of the service."""

    rules = (
        *OF_THE_HUB,
        Rule(
            "!has(self.cache) || ['hf', 's3', 'gs'].exists(s, self.source.startsWith(s + '://'))",
            "cache belongs to hf://, s3:// and gs:// sources: the others are volumes or files already",
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
    """What clients send as `model`."""
    source: Source
    """Where the weights are: `hf://owner/name`, `s3://bucket/prefix`, `gs://bucket/prefix`,
    `pvc://claim/path`, `image://registry/name:tag#path` (an image volume) or `file:///path` (in the
    Ray image)."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// model; a commit pins it."""
    token: SecretKeySource | None = None
    """Hugging Face token of a gated model, from a Secret."""
    cache: ModelCache | None = None
    """Keeps the weights in a PersistentVolumeClaim, filled once by a Job. Unset: each worker pod fetches them
    itself."""
    trust_remote_code: bool = False
    """Whether code from the model's repository may run in the pods. An hf:// model then needs a commit as
    `revision`."""
    engine: Engine = Field(default_factory=Engine)
    """The engine's settings."""
    lora: Lora | None = None
    """LoRA adapters, each a model name of its own. Unset: the engine takes none; to set it, or to take it
    away, restarts the replicas."""
    parallelism: Parallelism = Field(default_factory=Parallelism)
    """How one replica is spread over accelerators."""
    placement: Placement | None = None
    """`STRICT_PACK`: all accelerators of a replica in one pod. `PACK`: a pod for each pipeline stage, on
    several nodes if need be. Unset: STRICT_PACK with tensor above 1 and pipeline 1, else PACK, which for a
    replica with one accelerator says the same."""
    accelerator: Accelerator = Field(default_factory=Accelerator)
    """What it computes on."""
    resources: WorkerResources = Field(default_factory=WorkerResources)
    """Cores and memory of one worker pod."""
    replicas: Replicas = Field(default_factory=Replicas)
    """How many replicas, and what moves that number."""
    serve: Serve = Field(default_factory=Serve)
    """Ray Serve's settings."""
    routing: Routing | None = None
    """How a replica is chosen for a request. Unset: the least busy one; with `runtime.directIngress: false`
    Serve's default."""
    volumes: Annotated[list[NamedVolume], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("name")
    )
    """More volumes for this model's worker pods."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(
        default_factory=list, json_schema_extra=list_by("mountPath")
    )
    """Where volumes of the model or of `runtime.volumes` appear in its Ray containers."""
    pod_template: PodTemplate | None = None
    """What to add to this model's worker pods."""
