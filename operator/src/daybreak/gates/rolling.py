"""Effects of a workload's rollout on its gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daybreak.api.gates.gate_status import ModelGate
from daybreak.api.gates.rollout import OnFailure, RolloutPhase
from daybreak.gates.sleep_state import Health
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.record import state_of


def rolled_out(health: Health, state: RolloutState, on_failure: OnFailure) -> Health:
    """Return the health of a model for its gate during a rollout.

    Clients do not receive a start failure while another revision will be tried: their requests stay held for
    it.

    Args:
        health: Health of the model without the rollout.
        state: State of the rollout.
        on_failure: Action after a revision that cannot start.
    """
    rolls_back = state.falls_back and on_failure is OnFailure.ROLL_BACK
    spared = state.phase is RolloutPhase.ROLLING_BACK or rolls_back
    failed = "" if spared else health.failed
    return replace(health, failed=failed, replaces=state.replaces, on_trial=state.timed)


def wakes_for_requests(gate: ModelGate | None, status: Mapping[str, Any]) -> bool:
    """Return True if a waking model wakes from sleep and the status shows no rollout in progress."""
    state = state_of(status)
    from_sleep = gate is not None and gate.wake is not None and gate.wake.under_way
    return from_sleep and (state is None or not state.timed)
