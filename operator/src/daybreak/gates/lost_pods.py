"""Awake models that have lost pods, for example after an eviction or a node failure."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase
from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.gates.sleep_state import SleepState
from daybreak.ray.views.accelerator_pods import no_room_since, placed_pods
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import needs, nodes_for
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.replica_size import pods_awake, pods_per_replica


@dataclass(frozen=True)
class Awake:
    """Facts about a model that may be awake."""

    state: SleepState
    """Sleep state of the model. The model is awake if its gate is open."""
    gate: ModelGate | None
    """The gate in the status."""
    workload: RayWorkload
    model: Model
    pods: Collection[PodView]
    """Pods of the model that have not ended."""
    may_yield_at: datetime | None
    """Time from which policy and traffic allow the model to yield, or None if they do not."""

    @property
    def lost_since(self) -> datetime | None:
        """Time since which the scheduler cannot place a pod that the model needs to answer, or None.

        None means that the model answers, as far as is known, or is not awake. The model cannot answer with
        fewer placed pods than a replica needs. With enough placed pods, for example if each of two replicas
        has lost one, its phase decides.
        """
        if self.state.gate is not GateState.OPEN or self.state.asleep is not None:
            return None
        there, silent = placed_pods(self.pods), self.state.phase is Phase.WAKING
        whole = there >= pods_per_replica(self.model)
        missing = there < pods_awake(self.workload, self.model)
        return no_room_since(self.pods, self.model) if not whole or (silent and missing) else None


def with_lost_pods(claim: Claim, awake: Awake, nodes: tuple[Node, ...] | None, now: datetime) -> Claim:
    """Return the claim of a model, with its lost pods if it is awake.

    Args:
        claim: The claim without lost pods.
        awake: The model.
        nodes: The nodes, or None if unknown.
        now: The current time.
    """
    since, gate = awake.lost_since, awake.gate
    if since is None:
        return claim
    return replace(
        claim,
        lost=True,
        no_room_since=since,
        needs=needs(awake.model),
        # A model that has lost pods may yield without an answer.
        yields_at=awake.may_yield_at,
        overdue=gate is not None and now - since >= timedelta(seconds=gate.hold_seconds),
        nodes=nodes_for(awake.model, nodes) if nodes is not None else None,
    )
