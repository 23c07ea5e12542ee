"""Models that are awake and have lost pods, as where a pod was evicted or a node died."""

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
    """What is known of a model that may be awake."""

    state: SleepState
    """Its sleep; it is awake if its gate is open."""
    gate: ModelGate | None
    """Its gate as the status says it."""
    workload: RayWorkload
    model: Model
    pods: Collection[PodView]
    """Those of its pods that have not ended."""
    may_yield_at: datetime | None
    """When its policy and its traffic allow it to yield; None: they do not."""

    @property
    def lost_since(self) -> datetime | None:
        """Since when the scheduler finds no room for a pod without which it cannot answer; None: it answers,
        as far as one can see, or is not awake.

        It cannot answer where fewer pods stand than a replica takes. Where as many stand, as when each of two
        replicas has lost one, it is taken at its word.
        """
        if self.state.gate is not GateState.OPEN or self.state.asleep is not None:
            return None
        there, silent = placed_pods(self.pods), self.state.phase is Phase.WAKING
        whole = there >= pods_per_replica(self.model)
        missing = there < pods_awake(self.workload, self.model)
        return no_room_since(self.pods, self.model) if not whole or (silent and missing) else None


def with_lost_pods(claim: Claim, awake: Awake, nodes: tuple[Node, ...] | None, now: datetime) -> Claim:
    """A claim of a model, if it is awake, with what it has lost.

    Args:
        claim: What is known of it beside that.
        awake: The model.
        nodes: The nodes; None: they are not known.
        now: The time.
    """
    since, gate = awake.lost_since, awake.gate
    if since is None:
        return claim
    return replace(
        claim,
        lost=True,
        no_room_since=since,
        needs=needs(awake.model),
        # A model that has lost pods need not answer to yield.
        yields_at=awake.may_yield_at,
        overdue=gate is not None and now - since >= timedelta(seconds=gate.hold_seconds),
        nodes=nodes_for(awake.model, nodes) if nodes is not None else None,
    )
