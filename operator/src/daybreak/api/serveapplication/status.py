"""Status of a ServeApplication: conditions that follow kstatus, and its gate."""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.gates.gate_status import GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.base import ApiModel


class DeploymentStatus(ApiModel):
    """State of one deployment, as Ray Serve reports it."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the deployment."""
    status: Annotated[str, Field(max_length=64)]
    """Status of the deployment in Ray Serve."""


class ServeApplicationStatus(ApiModel):
    """Observed state of the ServeApplication."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    phase: Phase | None = None
    """Summary phase of the application, for display."""
    phase_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time of the last change of the phase."""
    access: Literal["Open", "ApiKeys"] | None = None
    """Clients that may use the application. `Open`: all clients that can reach its address. `ApiKeys`:
    clients with an API key."""
    gate: GateStatus | None = None
    """Instructions for the gateway on how to treat requests. Absent without a gateway."""
    url: str | None = None
    """URL of the application inside the cluster."""
    ray_cluster: str | None = None
    """Name of the RayCluster that receives requests."""
    deployments: Annotated[list[DeploymentStatus], Field(max_length=64)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """State of the deployments, as Ray Serve reports it."""
    accelerators: int = 0
    """Number of accelerators that the pods use."""
    savings: SavingsStatus | None = None
    """Accelerator-seconds spent awake, spent on waking, and saved by sleep. Absent without accelerators or
    without a gateway."""
    rollout: RolloutStatus | None = None
    """Current revision and the last change of it. Absent before the operator has first looked for the
    code."""
    probed_configuration: Annotated[str, Field(max_length=253)] | None = None
    """Name of the RayCluster in which the application has run."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: `Ready`, `Active`, `Schedulable`, `Reconciling`, `Stalled`."""
