"""What the operator says of a ServeApplication: conditions that follow kstatus, and its gate."""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.gates.gate_status import GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.base import ApiModel


class DeploymentStatus(ApiModel):
    """What Ray Serve says of one deployment."""

    name: Annotated[str, Field(max_length=253)]
    """Its name."""
    status: Annotated[str, Field(max_length=64)]
    """Serve's word."""


class ServeApplicationStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: Phase | None = None
    """One word on it."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the phase last changed."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Who may use it: everybody who can reach its address, or who has an API key."""
    gate: GateStatus | None = None
    """How the gateway is to treat requests; absent without a gateway."""
    url: str | None = None
    """Where it is asked inside the cluster."""
    ray_cluster: str | None = None
    """The RayCluster that takes requests."""
    deployments: Annotated[list[DeploymentStatus], Field(max_length=64)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """What Ray Serve says of its deployments."""
    accelerators: int = 0
    """Accelerators that its pods hold."""
    savings: SavingsStatus | None = None
    """Accelerator seconds held, spent on waking, and given back by sleep; absent without accelerators or
    without a gateway."""
    rollout: RolloutStatus | None = None
    """The revision that runs, and the last change of it; absent before its code has been looked for."""
    probed_configuration_hash: Annotated[str, Field(max_length=253)] | None = None
    """The RayCluster in which the application has run."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Ready, Active, Schedulable, Reconciling, Stalled."""
