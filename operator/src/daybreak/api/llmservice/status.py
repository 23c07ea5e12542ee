"""Status of an LLMService: conditions that follow kstatus, and the state of each model."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.conditions import Condition, Reason
from daybreak.api.gates.gate_status import GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.ray.cache import CacheStatus
from daybreak.api.schema.base import ApiModel


class ModelState(StrEnum):
    """Summary state of a model, for display."""

    PENDING = "Pending"
    """No pod of the model runs yet."""
    STARTING = "Starting"
    """Pods or the engine of the model are starting."""
    READY = "Ready"
    """The model answers."""
    UPDATING = "Updating"
    """The model answers, and a change of it is in progress."""
    ASLEEP = "Asleep"
    """The model has no accelerators allocated."""
    FAILED = "Failed"
    """The model cannot start; `message` has the cause."""


class AdapterState(StrEnum):
    """Summary state of a LoRA adapter, for display."""

    PENDING = "Pending"
    """The adapter is being loaded into the replicas."""
    READY = "Ready"
    """Every running replica has loaded the adapter."""
    ASLEEP = "Asleep"
    """The model of the adapter sleeps; a request for either of them wakes it."""
    REJECTED = "Rejected"
    """The adapter cannot be used with this model; `message` has the cause. A changed adapter is tried
    again."""
    FAILED = "Failed"
    """The adapter could not be fetched; `message` has the cause. The fetch is retried."""


class AdapterStatus(ApiModel):
    """State of one LoRA adapter."""

    name: str
    """Name of the adapter."""
    state: AdapterState
    """Summary state of the adapter, for display."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Cause for which the adapter cannot be used."""
    id: str
    """Digest of the adapter's source. The state is valid only for this source."""


class ModelStatus(ApiModel):
    """State of one model."""

    name: str
    """Name of the model."""
    state: ModelState
    """Summary state of the model, for display."""
    replicas: int = 0
    """Number of replicas with ready worker pods, and at least 1 if the model already answers."""
    accelerators: int = 0
    """Number of accelerators allocated to the worker pods, ready or not."""
    reason: Reason | None = None
    """UpperCamelCase reason for a problem of this model, for automation. Absent if the model has no own
    problem."""
    message: Annotated[str, Field(max_length=32768)] | None = None
    """Problem that prevents the model from serving, quoted from the engine if the engine reported it. Without
    a problem, the step that the model waits for."""
    lora: Annotated[list[AdapterStatus], Field(max_length=64)] | None = None
    """LoRA adapters of the model, in the order of the spec."""
    probed_configuration: str | None = None
    """Digest of the Ray cluster and the configuration with which the model answered a probe. After a change
    of either, the operator probes the model again."""
    errors_start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time since which the running model has answered the operator only with errors. Absent if it has not."""
    cache: CacheStatus | None = None
    """Copy of the model's weights, if the model has a cache."""


class HeadStatus(ApiModel):
    """Problem of the Ray head."""

    reason: Reason
    """UpperCamelCase reason for the problem, for automation."""
    message: Annotated[str, Field(max_length=32768)]
    """Explanation of the problem, for display."""


class Defaults(ApiModel):
    """Operator defaults of Ray pods, for settings that the spec leaves open."""

    operator: str | None = None
    """Version of the operator. Absent for an operator that left no record."""
    image: Annotated[str, Field(max_length=1024)] | None = None
    """Image of the Ray pods, or that of the spec if the spec names one."""
    head_image: Annotated[str, Field(max_length=1024)] | None = None
    """Image of the Ray head, if it is different."""
    ray_version: Annotated[str, Field(max_length=64)] | None = None
    """Version of Ray in the image, if known."""


class DefaultsStatus(Defaults):
    """Operator defaults of the current Ray pods."""

    outdated: bool = False
    """True if the operator would build the Ray pods differently now. New defaults apply when the service next
    sleeps, cannot start, or has a change that needs new replicas or pods. With `runtime.followDefaults`, they
    apply immediately."""
    next: Defaults | None = None
    """Defaults that apply next. Absent if there are no new defaults. Settings that are not listed here may
    also differ."""


class LLMServiceStatus(ApiModel):
    """Observed state of the LLMService."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    phase: Phase | None = None
    """Summary phase of the service, for display. Automation must use `conditions`."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the phase last changed."""
    sleep_depth: SleepDepth | None = None
    """Depth of the current sleep of the whole service: the `Workers` of every model, or the `Cluster`. The
    depth of single models is in `gate.models`."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Clients that may use the service. `Open`: all clients that can reach its address. `ApiKeys`: clients
    with an API key."""
    gate: GateStatus | None = None
    """Instructions for the gateway about requests to the service."""
    url: str | None = None
    """Base URL for an OpenAI client inside the cluster."""
    replicas: int = 0
    """Number of ready replicas of all models. If `spec.replicas` sets the number for each model, the minimum
    over all models."""
    accelerators: int = 0
    """Number of accelerators allocated to all models."""
    savings: SavingsStatus | None = None
    """Accelerator-seconds spent awake, spent on waking, and saved by sleep. Absent without accelerators or
    without a gateway."""
    selector: str | None = None
    """Label selector of the worker pods, for the scale subresource."""
    defaults: DefaultsStatus | None = None
    """Operator defaults that the current Ray pods use. Absent if there is no RayService."""
    rollout: RolloutStatus | None = None
    """Current revision, and its last change."""
    head: HeadStatus | None = None
    """Problem of the Ray head. Absent if there is none."""
    models: Annotated[list[ModelStatus], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """State of each model, in the order of the spec."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions of the service: `Ready`, `Active`, `Schedulable`, `Reconciling` and `Stalled`."""
