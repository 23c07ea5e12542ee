"""Sleep and wake: when the machine has to be asked again although nothing has happened."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_status import Phase
from daybreak.gates.state_machine import SleepPolicy, SleepState, look_again
from daybreak.gates.traffic import Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASLEEP,
    ASLEEP_DEEP,
    AWAKE,
    DEEPER_LATER,
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
    UPDATING,
    WAKING,
)


@pytest.mark.parametrize(
    ("decided", "sleep_policy", "traffic", "pause"),
    [
        pytest.param(AWAKE, SLEEPS, LATELY, MINUTE, id="idle soon"),
        pytest.param(replace(AWAKE, since=NOW - MINUTE), SLEEPS, IDLE, 9 * MINUTE, id="has just woken"),
        pytest.param(AWAKE, SLEEPS, STREAMING, 10 * MINUTE, id="a stream runs"),
        pytest.param(replace(AWAKE, phase=Phase.WAKING), SLEEPS, IDLE, None, id="idle, and silent"),
        pytest.param(UPDATING, SLEEPS, IDLE, 60 * MINUTE, id="kept awake by an update, for a time"),
        pytest.param(AWAKE, SLEEPS, UNHEARD, None, id="a gateway is not heard"),
        pytest.param(AWAKE, NEVER, IDLE, None, id="never sleeps"),
        pytest.param(AWAKE, IN_WINDOW, LATELY, None, id="in a window"),
        pytest.param(WAKING, SLEEPS, LATELY, MINUTE, id="waking, and soon nobody may wait for it"),
        pytest.param(DRAINING, SLEEPS, STREAMING, None, id="draining"),
        pytest.param(ASLEEP, SLEEPS, IDLE, None, id="asleep for good"),
        pytest.param(ASLEEP, DEEPER_LATER, IDLE, 110 * MINUTE, id="deeper later"),
        pytest.param(ASLEEP, DEEPER_LATER, LONG_IDLE, timedelta(0), id="deeper at once"),
        pytest.param(ASLEEP_DEEP, DEEPER_LATER, IDLE, None, id="in the depth"),
    ],
)
def test_when_to_look_again(
    decided: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, pause: timedelta | None
) -> None:
    assert look_again(decided, sleep_policy, traffic, NOW) == pause
