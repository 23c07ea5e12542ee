"""What the operator says of an LLMService: conditions that follow kstatus, and the state of each model."""

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
    """One word on a model."""

    PENDING = "Pending"
    """Nothing of it runs yet."""
    STARTING = "Starting"
    """Its pods or its engine are starting."""
    READY = "Ready"
    """It answers."""
    UPDATING = "Updating"
    """It answers, and a change is on its way to it."""
    ASLEEP = "Asleep"
    """It holds no accelerators."""
    FAILED = "Failed"
    """It cannot start; `message` says why."""


class AdapterState(StrEnum):
    """One word on a LoRA adapter."""

    PENDING = "Pending"
    """It is on its way into the replicas."""
    READY = "Ready"
    """Every replica that runs has it."""
    ASLEEP = "Asleep"
    """Its model sleeps; a request for either wakes it."""
    REJECTED = "Rejected"
    """It cannot be used with this model; `message` says why. A change of it is tried anew."""
    FAILED = "Failed"
    """It could not be fetched; `message` says why. That is tried again."""


class AdapterStatus(ApiModel):
    """The state of one LoRA adapter."""

    name: str
    """Its name."""
    state: AdapterState
    """One word on it."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Why it cannot be used."""
    id: str
    """Digest of where it comes from: what is said here is said of that."""


class ModelStatus(ApiModel):
    """The state of one model."""

    name: str
    """Its name."""
    state: ModelState
    """One word on it."""
    replicas: int = 0
    """Replicas whose worker pods are ready; one at least where the model answers already."""
    accelerators: int = 0
    """Accelerators that its worker pods hold, ready or not."""
    reason: Reason | None = None
    """Why something of its own stands in the way, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)] | None = None
    """What stands in the way, in the engine's own words where it has spoken; else what is waited for."""
    lora: Annotated[list[AdapterStatus], Field(max_length=64)] | None = None
    """Its LoRA adapters, in the order of the spec."""
    probed_configuration_hash: str | None = None
    """What it has answered as: a fingerprint of the Ray cluster and the configuration. A change asks anew."""
    errors_start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when it has run, and answered the operator with errors alone; absent: it does not."""
    cache: CacheStatus | None = None
    """The copy of its weights, where it has a cache."""


class HeadStatus(ApiModel):
    """What stands in the way of the Ray head."""

    reason: Reason
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence for people."""


class Defaults(ApiModel):
    """What an operator builds Ray pods with where the spec leaves it open."""

    operator: str | None = None
    """Its version; absent: one that left no record."""
    image: Annotated[str, Field(max_length=1024)] | None = None
    """Image of the Ray pods: the spec's own, where it names one."""
    head_image: Annotated[str, Field(max_length=1024)] | None = None
    """Image of the head, where it is another."""
    ray_version: Annotated[str, Field(max_length=64)] | None = None
    """The version of Ray in it, as far as it is known."""


class DefaultsStatus(Defaults):
    """What the Ray pods were built with."""

    outdated: bool = False
    """Whether the operator would build them otherwise now. That is taken when the service next sleeps, cannot
    start, or is changed in what needs new replicas or pods; at once with `runtime.followDefaults`."""
    next: Defaults | None = None
    """What is taken then; absent: nothing new. It may differ in more than is said here."""


class LLMServiceStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: Phase | None = None
    """One word on the service."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the phase last changed."""
    sleep_depth: SleepDepth | None = None
    """What is given back at present of the whole service: the `Workers` of every model, or the `Cluster`.
    What is given back of single models stands in `gate.models`."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Who may use the service: everybody who can reach its address, or who has an API key."""
    gate: GateStatus | None = None
    """How the gateway is to treat requests."""
    url: str | None = None
    """Where an OpenAI client inside the cluster points its base URL."""
    replicas: int = 0
    """Ready replicas of all models together; where `spec.replicas` fixes them for each model, those of the
    model that has the fewest."""
    accelerators: int = 0
    """Accelerators held by all models together."""
    savings: SavingsStatus | None = None
    """Accelerator seconds held, spent on waking, and given back by sleep; absent without accelerators or
    without a gateway."""
    selector: str | None = None
    """Label selector of the worker pods, for the scale subresource."""
    defaults: DefaultsStatus | None = None
    """With whose defaults its Ray pods were built; absent while there is no RayService."""
    rollout: RolloutStatus | None = None
    """The revision that runs, and the last change of it."""
    head: HeadStatus | None = None
    """What stands in the way of the Ray head; absent when nothing does."""
    models: Annotated[list[ModelStatus], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """The state of each model, in the order of the spec."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Ready, Active, Schedulable, Reconciling, Stalled."""
