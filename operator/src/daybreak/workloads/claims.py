"""Claims of each gate of a workload: scarce accelerators, or CPUs, that it holds or requests."""

from typing import Any

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.gates.lost_pods import Awake, with_lost_pods
from daybreak.gates.rolling import wakes_for_requests
from daybreak.gates.room import first_since, held_since, overdue, room_seconds
from daybreak.gates.sleep_policy import overdue as wake_overdue
from daybreak.gates.state_machine import busy, has_lost_clients, may_yield_at, yields_at
from daybreak.ray.views.accelerator_pods import held_by_node, no_room_since, with_pods
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import nodes_for
from daybreak.scheduling.replica_size import accelerators_per_pod, scarce_resource
from daybreak.workloads.claimant import Claimant
from daybreak.workloads.observed import Observed
from daybreak.workloads.subject import Subject


def claims(observed: Observed[Any]) -> tuple[Claim, ...]:
    """Return a claim for each claimant. Without a gateway there are none, because nothing sleeps then."""
    if observed.subject is None or observed.gateway is None or observed.problems:
        return ()
    return tuple(_claim(observed, observed.subject, each) for each in observed.claimants())


def _claim(observed: Observed[Any], subject: Subject, claimant: Claimant) -> Claim:
    assert observed.gateway is not None  # noqa: S101 - checked by the caller
    model, pods = claimant.model, list(claimant.pods)
    state, gate = observed.sleep_states[claimant.gate], observed.gates.get(claimant.gate)
    policy, traffic = observed.sleep_policies[claimant.gate], observed.gateway.of(claimant.gate)
    waits = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    leaving = state.asleep is not None or state.phase is Phase.DRAINING
    claim = Claim(
        owner=f"{subject.namespace}/{subject.owner}",
        model=claimant.gate,
        resource=scarce_resource(model),
        since=state.since,
        devices=accelerators_per_pod(model),
        holds=held_by_node(pods, model),
        waits=waits,
        no_room_since=no_room_since(pods, model) if waits else None,
        queued=waits and gate is not None and bool(gate.queued_behind),
        requested=bool(traffic.held),
        held_since=held_since(gate, traffic, observed.now) if waits else None,
        abandoned=waits and wakes_for_requests(gate, observed.status) and has_lost_clients(policy, traffic),
        overdue=waits and overdue(gate),
        wake_overdue=gate is not None and wake_overdue(gate, observed.now),
        nodes=nodes_for(model, observed.nodes) if waits and observed.nodes is not None else None,
        # A replaced model restarts at once: its accelerators are for no other model.
        leaving=leaving and state.phase is not Phase.REPLACING,
        priority=policy.sleep.priority if policy.sleep is not None else 0,
        yields_at=yields_at(state, policy, traffic, observed.now),
        busy=busy(traffic),
        begins=claimant.begins,
        first_since=first_since(gate) if waits else None,
        room_seconds=room_seconds(gate),
        stays_down=leaving and policy.takes_turns and bool(traffic.held),
        comes_back=bool(traffic.held) or not policy.may_sleep,
    )
    claim = with_pods(claim, subject.workload, model, pods)
    may_yield = may_yield_at(state, policy, traffic, observed.now)
    awake = Awake(state, gate, subject.workload, model, pods, may_yield)
    return with_lost_pods(claim, awake, observed.nodes, observed.now)
