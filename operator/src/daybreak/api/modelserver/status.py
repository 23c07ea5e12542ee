"""What the operator says of a ModelServer: conditions that follow kstatus, and its gate."""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.gates.gate_status import GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.base import ApiModel

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class AutoscalingStatus(ApiModel):
    """What autoscaling has decided."""

    current_replicas: int
    """Pods that there are to be."""
    desired_replicas: int | None = None
    """As many are wanted, at least for as long as `since` says; absent: no others are."""
    desired_since_time: Moment | None = None
    """Since when another number is wanted without a break."""


class CrashStatus(ApiModel):
    """A replica on several nodes that was started anew, since one of its containers had ended."""

    configuration_hash: Annotated[str, Field(max_length=64)]
    """Digest of what it ran."""
    group: Annotated[str, Field(max_length=64)]
    """Which replica it was: the uid of its first pod."""
    repeated: bool = False
    """Whether another one had ended so before it, and none has answered since: then somebody must act."""
    message: str
    """What the container said last."""


class ModelServerStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: Phase | None = None
    """One word on it."""
    phase_transition_time: Moment | None = None
    """When the phase last changed."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Who may use it: everybody who can reach its address, or who has an API key."""
    gate: GateStatus | None = None
    """How the gateway is to treat requests; absent without a gateway."""
    url: str | None = None
    """Where a client inside the cluster points its base URL: with protocol OpenAI its paths begin there."""
    replicas: int = 0
    """Pods that are ready."""
    autoscaling: AutoscalingStatus | None = None
    """How many pods the traffic asks for; absent without `spec.autoscaling`, and in sleep."""
    accelerators: int = 0
    """Accelerators that its pods hold."""
    savings: SavingsStatus | None = None
    """Accelerator seconds held, spent on waking, and given back by sleep; absent without accelerators or
    without a gateway."""
    selector: str | None = None
    """Label selector of its pods, for the scale subresource."""
    probed_configuration_hash: Annotated[str, Field(max_length=64)] | None = None
    """What has answered: a digest of what the pods run. Another one is asked anew, and one that slept."""
    crash: CrashStatus | None = None
    """The last replica on several nodes that ended before one answered; absent once one does."""
    rollout: RolloutStatus | None = None
    """The last change of what runs."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Ready, Active, Schedulable, Reconciling, Stalled."""
