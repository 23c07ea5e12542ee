"""Status of a ModelServer: conditions that follow kstatus, and the state of its gate."""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.gates.gate_status import GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.base import ApiModel

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class AutoscalingStatus(ApiModel):
    """Decision of the autoscaling."""

    current_replicas: int
    """Number of replicas that the operator maintains."""
    desired_replicas: int | None = None
    """Other number of replicas that the traffic has required since `desiredSinceTime`: for an increase the
    minimum of that time, for a decrease the maximum. Absent if no other number is required."""
    desired_since_time: Moment | None = None
    """Time since which the traffic has required another number of replicas without interruption."""


class CrashStatus(ApiModel):
    """Multi-node replica that was restarted because one of its containers had ended."""

    configuration_hash: Annotated[str, Field(max_length=64)]
    """Digest of the configuration that the replica ran."""
    group: Annotated[str, Field(max_length=64)]
    """Identity of the replica: the UID of its first pod."""
    repeated: bool = False
    """True if another replica had ended in this way before, and none has answered since. Action is
    required."""
    message: str
    """Last message of the container."""


class ModelServerStatus(ApiModel):
    """Observed state of a ModelServer."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    phase: Phase | None = None
    """Phase of the server, for display."""
    phase_transition_time: Moment | None = None
    """Time of the last change of `phase`."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Clients that may use the server: `Open` for all clients that can reach its address, `ApiKeys` for
    clients with an API key."""
    gate: GateStatus | None = None
    """Gate of the server, which the gateway applies to requests. Absent without a gateway."""
    url: str | None = None
    """Base URL for clients inside the cluster. With protocol `OpenAI`, the paths of the API begin there."""
    replicas: int = 0
    """Number of ready replicas."""
    autoscaling: AutoscalingStatus | None = None
    """Number of replicas that the traffic requires. Absent without `spec.autoscaling`, and while the server
    is asleep."""
    accelerators: int = 0
    """Number of accelerators that the server's pods use."""
    savings: SavingsStatus | None = None
    """Accelerator-seconds used while awake, used while waking, and saved by sleep. Absent without
    accelerators or without a gateway."""
    selector: str | None = None
    """Label selector of the server's pods, for the scale subresource."""
    probed_configuration: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the pod configuration that has answered a probe. The operator probes again after a change of
    the configuration and after sleep."""
    crash: CrashStatus | None = None
    """Last multi-node replica that ended before any replica answered. Absent after a replica has answered."""
    rollout: RolloutStatus | None = None
    """Last rollout of the server."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions `Ready`, `Active`, `Schedulable`, `Reconciling` and `Stalled`."""
