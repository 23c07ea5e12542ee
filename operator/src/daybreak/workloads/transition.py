"""Decide on the sleep of each gate, and when time alone may change a decision: pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from daybreak.api.gates.gate_status import ModelGate
from daybreak.gates import idle_policy, room, state_machine
from daybreak.gates.rolling import rolled_out
from daybreak.gates.schedule import next_change
from daybreak.gates.sleep_policy import node_wait
from daybreak.gates.sleep_state import Health
from daybreak.gates.state_machine import Step
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.observed import Observed
from daybreak.workloads.rolled import Rolled


def next_steps(
    observed: Observed[Any], assessed: Mapping[str, Assessment], rolled: Rolled | None
) -> dict[str, Step]:
    """Return the next decision on the sleep of each gate, by the gate's name. Empty without a gateway."""
    if observed.gateway is None:
        return {}
    steps = {}
    for gate, before in observed.sleep_states.items():
        health = _health(observed, gate, assessed[gate])
        if rolled is not None:
            health = rolled_out(health, rolled.state, rolled.history.rollout.on_failure)
        policy, traffic = observed.sleep_policies[gate], observed.gateway.of(gate)
        steps[gate] = state_machine.decide(before, policy, traffic, health, observed.now)
    return steps


def look_again(
    observed: Observed[Any], states: Iterable[str], gates: Sequence[ModelGate]
) -> timedelta | None:
    """Return the time after which the reported decision may change without an event, or None.

    Args:
        observed: The observation.
        states: The gates of the decision.
        gates: The gates in the status.
    """
    pauses: list[timedelta | None] = []
    for gate in states:
        policy = observed.sleep_policies[gate]
        pauses += [
            next_change(policy.sleep.schedule if policy.sleep is not None else (), observed.now),
            observed.turn(gate).look_again,
        ]
    for each in gates:
        pauses += [
            node_wait(each, observed.now),
            idle_policy.look_again(observed.gates.get(each.name), each),
            room.look_again(each, observed.now),
        ]
    return earliest(*pauses)


def earliest(*pauses: timedelta | None) -> timedelta | None:
    """Return the shortest pause, or None if there is none."""
    return min((pause for pause in pauses if pause is not None), default=None)


def _health(observed: Observed[Any], gate: str, found: Assessment) -> Health:
    turn = observed.turn(gate)
    return Health(
        answers=found.answering,
        drain=found.drain,
        failed=found.failed,
        updating=found.updating,
        hindered=found.hindered,
        waits=found.lacks_room,
        queues=turn.in_queue,
        gives_way=bool(turn.gives_way_to),
        preempted=turn.preempted,
    )
