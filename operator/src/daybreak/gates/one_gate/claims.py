"""What a workload with one gate holds of scarce accelerators, or of cores, or wants of them."""

from decimal import Decimal
from typing import Any

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.ray.model import Model
from daybreak.api.schema.scalars import parse_quantity
from daybreak.gates.lost_pods import Awake, with_lost_pods
from daybreak.gates.one_gate.observed import Observed
from daybreak.gates.rolling import wakes_for_requests
from daybreak.gates.room import first_since, held_since, overdue, room_seconds
from daybreak.gates.sleep_policy import overdue as wake_overdue
from daybreak.gates.state_machine import busy, forsaken, may_yield_at, yields_at
from daybreak.ray.views.accelerator_pods import held_by_node, no_room_since, with_pods
from daybreak.ray.views.ray_pods import pod_views
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import nodes_for
from daybreak.scheduling.replica_size import accelerators_per_pod, scarce_resource, worker_cpu


def claims(seen: Observed[Any]) -> tuple[Claim, ...]:
    """One; none without a gateway, as it never sleeps then."""
    state, subject = seen.sleep_state, seen.subject
    if subject is None or seen.gateway is None or state is None or seen.problems:
        return ()
    model = _greediest(subject.workload.models)
    if model is None:
        return ()
    resource = scarce_resource(model)
    pods = [pod for pod in pod_views(seen.pods) if not pod.over]
    policy, traffic, gate = seen.sleep_policy, seen.gateway.traffic, seen.gate
    waits = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    leaving = state.asleep is not None or state.phase is Phase.DRAINING
    claim = Claim(
        owner=f"{subject.namespace}/{subject.owner}",
        model=subject.gate_name,
        resource=resource,
        since=state.since,
        devices=accelerators_per_pod(model),
        holds=held_by_node(pods, model),
        waits=waits,
        no_room_since=no_room_since(pods, model) if waits else None,
        queued=waits and gate is not None and bool(gate.after),
        asked=bool(traffic.held),
        held_since=held_since(gate, traffic, seen.now) if waits else None,
        forsaken=waits and wakes_for_requests(gate, seen.status) and forsaken(policy, traffic),
        overdue=waits and overdue(gate),
        wake_overdue=gate is not None and wake_overdue(gate, seen.now),
        nodes=nodes_for(model, seen.nodes) if waits and seen.nodes is not None else None,
        leaving=leaving and state.phase is not Phase.REPLACING,
        priority=policy.sleep.priority if policy.sleep is not None else 0,
        yields_at=yields_at(state, policy, traffic, seen.now),
        busy=busy(traffic),
        first_since=first_since(gate) if waits else None,
        room_seconds=room_seconds(gate),
        stays_down=leaving and policy.takes_turns and bool(traffic.held),
        comes_back=bool(traffic.held) or not policy.may_sleep,
    )
    claim = with_pods(claim, subject.workload, model, pods)
    awake = Awake(state, gate, subject.workload, model, pods, may_yield_at(state, policy, traffic, seen.now))
    return (with_lost_pods(claim, awake, seen.nodes, seen.now),)


def _greediest(models: Any) -> Model | None:
    """Of its kinds of pods the one with the most accelerators, or cores where none has any; None: it has no
    pods but a head."""

    def greed(model: Model) -> tuple[int, Decimal]:
        return accelerators_per_pod(model), parse_quantity(worker_cpu(model))

    return max(models, key=greed, default=None)
