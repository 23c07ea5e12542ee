"""What each model of a service holds of scarce accelerators, or of cores, or wants of them."""

from daybreak.api.common import names
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.ray.model import Model
from daybreak.gates.lost_pods import Awake, with_lost_pods
from daybreak.gates.rolling import wakes_for_requests
from daybreak.gates.room import first_since, held_since, overdue, room_seconds
from daybreak.gates.sleep_policy import overdue as wake_overdue
from daybreak.gates.state_machine import busy, forsaken, may_yield_at, yields_at
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.accelerator_pods import held_by_node, no_room_since, with_pods
from daybreak.ray.views.ray_pods import PodView, pod_views
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import nodes_for
from daybreak.scheduling.replica_size import accelerators_per_pod, scarce_resource


def claims(seen: Observed) -> tuple[Claim, ...]:
    """One for each model; none of a service without a gateway, which never sleeps."""
    if seen.service is None or seen.gateway is None or seen.problems:
        return ()
    pods = pod_views(seen.pods)
    found = []
    for model in seen.service.spec.models:
        own = [pod for pod in pods if pod.group == names.worker_group(model.name) and not pod.over]
        found.append(_claim(seen, model, own))
    return tuple(found)


def _claim(seen: Observed, model: Model, pods: list[PodView]) -> Claim:
    assert seen.service is not None and seen.gateway is not None  # noqa: S101, PT018 - checked by the caller
    state, gate = seen.sleep_states[model.name], seen.gates.get(model.name)
    policy, traffic = seen.sleep_policies[model.name], seen.gateway.of(model.name)
    waits = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    leaving = state.asleep is not None or state.phase is Phase.DRAINING
    claim = Claim(
        owner=f"{seen.service.namespace}/{seen.service.name}",
        model=model.name,
        resource=scarce_resource(model),
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
        # What is replaced comes back at once: its accelerators are for nobody else.
        leaving=leaving and state.phase is not Phase.REPLACING,
        priority=policy.sleep.priority if policy.sleep is not None else 0,
        yields_at=yields_at(state, policy, traffic, seen.now),
        busy=busy(traffic),
        begins=not ray_view(seen.ray_service).active,
        first_since=first_since(gate) if waits else None,
        room_seconds=room_seconds(gate),
        stays_down=leaving and policy.takes_turns and bool(traffic.held),
        comes_back=bool(traffic.held) or not policy.may_sleep,
    )
    claim = with_pods(claim, seen.service.workload, model, pods)
    awake = Awake(
        state, gate, seen.service.workload, model, pods, may_yield_at(state, policy, traffic, seen.now)
    )
    return with_lost_pods(claim, awake, seen.nodes, seen.now)
