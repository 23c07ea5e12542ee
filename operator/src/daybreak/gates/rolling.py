"""What a change of a workload means for its gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daybreak.api.gates.gate_status import ModelGate
from daybreak.api.gates.rollout import OnFailure, RolloutPhase
from daybreak.gates.sleep_state import Health
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.record import state_of


def rolled_out(health: Health, state: RolloutState, on_failure: OnFailure) -> Health:
    """How a model is for its gate, where its workload is being changed.

    What cannot start is not told to clients as long as something else will be tried: they stay held for that.

    Args:
        health: How it is by itself.
        state: What was decided of the change.
        on_failure: What comes of one that cannot start.
    """
    rolls_back = state.falls_back and on_failure is OnFailure.ROLL_BACK
    spared = state.phase is RolloutPhase.ROLLING_BACK or rolls_back
    failed = "" if spared else health.failed
    return replace(health, failed=failed, replaces=state.replaces, on_trial=state.timed)


def wakes_for_requests(gate: ModelGate | None, status: Mapping[str, Any]) -> bool:
    """Whether a model that is on the way up comes from sleep, and shows no change on it, by the status."""
    state = state_of(status)
    from_sleep = gate is not None and gate.wake is not None and gate.wake.under_way
    return from_sleep and (state is None or not state.timed)
