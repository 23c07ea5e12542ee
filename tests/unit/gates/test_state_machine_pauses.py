"""Sleep and wake: when the machine must run again although nothing has changed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import YIELD_IDLE, decide, step
from daybreak.gates.traffic import Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASLEEP,
    ASLEEP_DEEP,
    AWAKE,
    DEEPER_LATER,
    DOWN,
    DRAINING,
    IDLE,
    IN_WINDOW,
    LATELY,
    LONG_IDLE,
    MINUTE,
    NEVER,
    NOW,
    SLEEPS,
    STREAMING,
    UNHEARD,
    UP,
    UPDATING,
    WAKING,
)

NOTHING = timedelta(0)
CHANGES = replace(UP, updating=True)
WAITS = replace(DOWN, waits=True)
GOES = replace(UP, replaces=True, drain=5 * MINUTE)
ROLLING = replace(DRAINING, phase=Phase.REPLACING, since=NOW - MINUTE)


@pytest.mark.parametrize(
    ("before", "sleep_policy", "traffic", "health", "pause"),
    [
        pytest.param(AWAKE, SLEEPS, LATELY, UP, MINUTE, id="idle soon"),
        pytest.param(replace(AWAKE, since=NOW - MINUTE), SLEEPS, IDLE, UP, 9 * MINUTE, id="has just woken"),
        pytest.param(AWAKE, SLEEPS, replace(STREAMING, idle=NOTHING), UP, 10 * MINUTE, id="a stream runs"),
        pytest.param(AWAKE, SLEEPS, replace(LATELY, in_flight=1), UP, MINUTE, id="a health check, idle soon"),
        pytest.param(AWAKE, SLEEPS, STREAMING, UP, YIELD_IDLE, id="a health check, and idle"),
        pytest.param(replace(AWAKE, phase=Phase.WAKING), SLEEPS, IDLE, DOWN, None, id="idle, and silent"),
        pytest.param(UPDATING, SLEEPS, IDLE, CHANGES, 60 * MINUTE, id="kept awake by an update, for a time"),
        pytest.param(AWAKE, SLEEPS, UNHEARD, UP, None, id="a gateway is not heard"),
        pytest.param(AWAKE, NEVER, IDLE, UP, None, id="never sleeps"),
        pytest.param(AWAKE, IN_WINDOW, LATELY, UP, None, id="in a window"),
        pytest.param(WAKING, SLEEPS, LATELY, WAITS, MINUTE, id="waking, and soon nobody may wait for it"),
        pytest.param(DRAINING, SLEEPS, STREAMING, UP, None, id="draining"),
        pytest.param(ASLEEP, SLEEPS, IDLE, DOWN, None, id="asleep for good"),
        pytest.param(ASLEEP, DEEPER_LATER, IDLE, DOWN, 110 * MINUTE, id="deeper later"),
        pytest.param(ASLEEP_DEEP, DEEPER_LATER, IDLE, DOWN, None, id="in the depth"),
        pytest.param(ROLLING, SLEEPS, STREAMING, GOES, 4 * MINUTE, id="requests may end before pods go"),
    ],
)
def test_next_decision_is_due_after_expected_time(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health, pause: timedelta | None
) -> None:
    found = decide(before, sleep_policy, traffic, health, NOW)
    assert found.state == step(before, sleep_policy, traffic, health, NOW)
    assert found.look_again == pause


def test_due_change_of_depth_is_applied_at_once() -> None:
    deeper = decide(ASLEEP, DEEPER_LATER, LONG_IDLE, DOWN, NOW)
    assert (deeper.state.asleep, deeper.look_again) == (SleepDepth.CLUSTER, None)


def test_decision_that_leads_to_another_decision_is_repeated_at_once() -> None:
    """A forced sleep has closed the gate: when the model only has to drain, no gateway sends a new report."""
    shut = replace(AWAKE, phase=Phase.WAKING, gate=GateState.CLOSED)
    drains = decide(shut, SLEEPS, IDLE, WAITS, NOW)
    assert (drains.state.phase, drains.look_again) == (Phase.DRAINING, timedelta(0))
