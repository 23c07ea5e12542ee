"""Sleep and wake: each rule of the state machine once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import SleepDepth, State
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP, UPDATE_PATIENCE, YIELD_IDLE, start, step
from daybreak.gates.traffic import UNKNOWN, Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASKED,
    ASLEEP,
    ASLEEP_DEEP,
    ASLEEP_FORCED,
    AWAKE,
    BROKEN,
    CLOSED,
    DEEPER_LATER,
    DOWN,
    DRAINING,
    DRAINING_FORCED,
    FAILED,
    FAILING,
    IDLE,
    IN_WINDOW,
    KEPT_ASLEEP,
    KEPT_AWAKE,
    LATELY,
    LONG_IDLE,
    MINUTE,
    NEVER,
    NOW,
    OPEN,
    REFUSING,
    SLEEPS,
    SLEEPS_DEEP,
    STREAMING,
    UNHEARD,
    UNTOLD,
    UP,
    UPDATING,
    WAKING,
    changed,
)

UPDATES = Health(True, MINUTE, updating=True)


@pytest.mark.parametrize(
    ("before", "sleep_policy", "traffic", "health"),
    [
        pytest.param(AWAKE, NEVER, IDLE, UP, id="sleep is not asked for"),
        pytest.param(AWAKE, SLEEPS, LATELY, UP, id="somebody has asked lately"),
        pytest.param(AWAKE, SLEEPS, STREAMING, UP, id="a stream runs"),
        pytest.param(AWAKE, SLEEPS, ASKED, UP, id="a request is still being released"),
        pytest.param(AWAKE, SLEEPS, UNHEARD, UP, id="a gateway is not heard"),
        pytest.param(AWAKE, SLEEPS, UNKNOWN, UP, id="no gateway is heard"),
        pytest.param(replace(AWAKE, since=NOW - MINUTE), SLEEPS, IDLE, UP, id="it has just woken"),
        pytest.param(AWAKE, IN_WINDOW, IDLE, UP, id="the schedule keeps it awake"),
        pytest.param(AWAKE, KEPT_AWAKE, IDLE, UP, id="a person keeps it awake"),
        pytest.param(UPDATING, SLEEPS, IDLE, UPDATES, id="an update is on its way"),
        pytest.param(DRAINING, SLEEPS, STREAMING, UP, id="a long stream is waited for"),
        pytest.param(DRAINING, SLEEPS, UNTOLD, UP, id="a gateway has not closed yet"),
        pytest.param(DRAINING, SLEEPS, UNHEARD, UP, id="draining, and a gateway is not heard"),
        pytest.param(DRAINING_FORCED, KEPT_ASLEEP, STREAMING, UP, id="no stream is cut by force"),
        pytest.param(ASLEEP, SLEEPS, IDLE, DOWN, id="nobody asks"),
        pytest.param(ASLEEP, SLEEPS, UNKNOWN, DOWN, id="asleep, and no gateway is heard"),
        pytest.param(ASLEEP, DEEPER_LATER, IDLE, DOWN, id="not yet time for more depth"),
        pytest.param(ASLEEP, DEEPER_LATER, replace(LONG_IDLE, known=False), DOWN, id="no depth unheard"),
        pytest.param(ASLEEP_DEEP, SLEEPS, IDLE, DOWN, id="less depth brings nothing back"),
        pytest.param(ASLEEP_FORCED, KEPT_ASLEEP, ASKED, DOWN, id="no request wakes it by force"),
        pytest.param(WAKING, SLEEPS, IDLE, DOWN, id="idleness does not stop a start"),
        pytest.param(FAILED, SLEEPS, IDLE, FAILING, id="it still cannot start"),
    ],
)
def test_state_is_unchanged_if_no_rule_applies(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    assert step(before, sleep_policy, traffic, health, NOW) == before


@pytest.mark.parametrize(
    ("sleep_policy", "traffic", "health", "after"),
    [
        pytest.param(SLEEPS, IDLE, UP, changed(AWAKE, Phase.DRAINING, CLOSED), id="idle"),
        pytest.param(
            KEPT_ASLEEP,
            STREAMING,
            UP,
            changed(AWAKE, Phase.DRAINING, REFUSING, reason=FORCED_ASLEEP),
            id="a person puts it to sleep",
        ),
        pytest.param(
            SLEEPS, STREAMING, FAILING, changed(AWAKE, Phase.FAILED, REFUSING, reason=BROKEN), id="it fails"
        ),
        pytest.param(
            SLEEPS,
            IDLE,
            UPDATES,
            replace(changed(AWAKE, Phase.UPDATING, OPEN), kept_awake=KeptAwake.UPDATE),
            id="an update leaves the gate open",
        ),
        pytest.param(
            SLEEPS,
            IDLE,
            DOWN,
            replace(changed(AWAKE, Phase.WAKING, OPEN), kept_awake=KeptAwake.NO_ANSWER),
            id="silent models leave the gate open",
        ),
        pytest.param(
            SLEEPS,
            IDLE,
            Health(True, MINUTE, updating=True, hindered=True),
            changed(AWAKE, Phase.DRAINING, CLOSED),
            id="an update without room keeps nobody awake",
        ),
        pytest.param(
            SLEEPS,
            STREAMING,
            Health(True, MINUTE, updating=True, hindered=True),
            changed(AWAKE, Phase.UPDATING, OPEN),
            id="requests keep it awake",
        ),
    ],
)
def test_awake_model_moves_to_expected_state(
    sleep_policy: SleepPolicy, traffic: Traffic, health: Health, after: SleepState
) -> None:
    assert step(AWAKE, sleep_policy, traffic, health, NOW) == after


@pytest.mark.parametrize(
    ("before", "sleep_policy", "traffic", "health", "after"),
    [
        pytest.param(
            DRAINING,
            SLEEPS,
            IDLE,
            UP,
            changed(DRAINING, Phase.ASLEEP, CLOSED, SleepDepth.WORKERS),
            id="all are quiet",
        ),
        pytest.param(
            DRAINING,
            SLEEPS_DEEP,
            IDLE,
            DOWN,
            changed(DRAINING, Phase.ASLEEP, CLOSED, SleepDepth.CLUSTER),
            id="quiet, and all is given back",
        ),
        pytest.param(
            DRAINING_FORCED,
            replace(NEVER, forced=State.ASLEEP),
            IDLE,
            UP,
            changed(DRAINING_FORCED, Phase.ASLEEP, REFUSING, SleepDepth.WORKERS, FORCED_ASLEEP),
            id="quiet by force",
        ),
        pytest.param(
            DRAINING, SLEEPS, ASKED, UP, changed(DRAINING, Phase.AWAKE, OPEN), id="a request turns it round"
        ),
        pytest.param(
            DRAINING,
            SLEEPS,
            ASKED,
            DOWN,
            changed(DRAINING, Phase.WAKING, CLOSED),
            id="turned round, but the models are silent",
        ),
        pytest.param(
            DRAINING, IN_WINDOW, IDLE, UP, changed(DRAINING, Phase.AWAKE, OPEN), id="a window begins"
        ),
        pytest.param(
            DRAINING, NEVER, STREAMING, UP, changed(DRAINING, Phase.AWAKE, OPEN), id="sleep is unset"
        ),
        pytest.param(
            DRAINING,
            KEPT_ASLEEP,
            IDLE,
            UP,
            changed(DRAINING, Phase.DRAINING, REFUSING, reason=FORCED_ASLEEP),
            id="force closes anew, and that is waited for",
        ),
        pytest.param(
            DRAINING_FORCED,
            SLEEPS,
            IDLE,
            UP,
            changed(DRAINING_FORCED, Phase.AWAKE, OPEN),
            id="released before it slept",
        ),
        pytest.param(
            DRAINING_FORCED,
            NEVER,
            IDLE,
            DOWN,
            changed(DRAINING_FORCED, Phase.WAKING, CLOSED),
            id="released before it ever answered",
        ),
    ],
)
def test_draining_model_moves_to_expected_state(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health, after: SleepState
) -> None:
    assert step(before, sleep_policy, traffic, health, NOW) == after


@pytest.mark.parametrize(
    ("before", "sleep_policy", "traffic", "after"),
    [
        pytest.param(ASLEEP, SLEEPS, ASKED, changed(ASLEEP, Phase.WAKING, CLOSED), id="a request"),
        pytest.param(
            ASLEEP, SLEEPS, replace(UNHEARD, held=1), changed(ASLEEP, Phase.WAKING, CLOSED), id="half unheard"
        ),
        pytest.param(ASLEEP_DEEP, SLEEPS, ASKED, changed(ASLEEP, Phase.WAKING, CLOSED), id="from the depth"),
        pytest.param(ASLEEP, IN_WINDOW, IDLE, changed(ASLEEP, Phase.WAKING, CLOSED), id="a window begins"),
        pytest.param(ASLEEP, KEPT_AWAKE, IDLE, changed(ASLEEP, Phase.WAKING, CLOSED), id="a person wakes it"),
        pytest.param(ASLEEP, NEVER, IDLE, changed(ASLEEP, Phase.WAKING, CLOSED), id="sleep is unset"),
        pytest.param(
            ASLEEP_FORCED, NEVER, IDLE, changed(ASLEEP_FORCED, Phase.WAKING, CLOSED), id="released, no sleep"
        ),
        pytest.param(
            ASLEEP_FORCED,
            SLEEPS,
            IDLE,
            changed(ASLEEP_FORCED, Phase.ASLEEP, CLOSED, SleepDepth.WORKERS),
            id="released, and sleeps until somebody asks",
        ),
        pytest.param(
            ASLEEP,
            KEPT_ASLEEP,
            ASKED,
            changed(ASLEEP, Phase.ASLEEP, REFUSING, SleepDepth.WORKERS, FORCED_ASLEEP),
            id="a person keeps it asleep",
        ),
        pytest.param(
            ASLEEP,
            DEEPER_LATER,
            LONG_IDLE,
            changed(ASLEEP, Phase.ASLEEP, CLOSED, SleepDepth.CLUSTER),
            id="long idle: the rest as well",
        ),
        pytest.param(
            ASLEEP_FORCED,
            replace(DEEPER_LATER, forced=State.ASLEEP),
            LONG_IDLE,
            changed(ASLEEP_FORCED, Phase.ASLEEP, REFUSING, SleepDepth.CLUSTER, FORCED_ASLEEP),
            id="long idle by force",
        ),
        pytest.param(
            ASLEEP,
            SLEEPS_DEEP,
            IDLE,
            changed(ASLEEP, Phase.ASLEEP, CLOSED, SleepDepth.CLUSTER),
            id="more depth is asked for",
        ),
    ],
)
def test_sleeping_model_moves_to_expected_state(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, after: SleepState
) -> None:
    assert step(before, sleep_policy, traffic, DOWN, NOW) == after


@pytest.mark.parametrize(
    ("before", "sleep_policy", "health", "after"),
    [
        pytest.param(WAKING, SLEEPS, UP, changed(WAKING, Phase.AWAKE, OPEN), id="it answers"),
        pytest.param(
            WAKING, SLEEPS, FAILING, changed(WAKING, Phase.FAILED, REFUSING, reason=BROKEN), id="it fails"
        ),
        pytest.param(
            WAKING,
            KEPT_ASLEEP,
            DOWN,
            changed(WAKING, Phase.DRAINING, REFUSING, reason=FORCED_ASLEEP),
            id="a person puts it to sleep",
        ),
        pytest.param(
            WAKING,
            SLEEPS,
            Health(False, MINUTE, waits=True),
            WAKING,
            id="somebody waits for it",
        ),
        pytest.param(FAILED, SLEEPS, UP, changed(FAILED, Phase.AWAKE, OPEN), id="it answers after all"),
        pytest.param(FAILED, SLEEPS, DOWN, changed(FAILED, Phase.WAKING, CLOSED), id="it may start again"),
        pytest.param(
            FAILED,
            SLEEPS,
            Health(False, MINUTE, failed="no room"),
            changed(FAILED, Phase.FAILED, REFUSING, reason="no room"),
            id="it fails for another reason",
        ),
    ],
)
def test_waking_or_failed_model_moves_to_expected_state(
    before: SleepState, sleep_policy: SleepPolicy, health: Health, after: SleepState
) -> None:
    assert step(before, sleep_policy, ASKED, health, NOW) == after


def test_a_new_service_wakes_behind_a_closed_gate() -> None:
    assert replace(start(NOW, NEVER), epoch=1) == SleepState(Phase.WAKING, NOW, None, CLOSED, 1)


def test_report_on_previous_service_of_same_name_is_no_acknowledgement() -> None:
    """The previous decision is a second old, and the gate has changed since; the gateway's report is late."""
    before = start(NOW - timedelta(seconds=1), NEVER)
    late = replace(IDLE, acknowledged=before.epoch + 100)
    made = replace(start(NOW, NEVER), phase=Phase.DRAINING)
    assert step(made, SLEEPS, late, UP, NOW) == made
    reported = replace(IDLE, acknowledged=made.epoch)
    assert step(made, SLEEPS, reported, UP, NOW).phase is Phase.ASLEEP


def test_first_epoch_fits_into_a_json_number() -> None:
    assert start(NOW, NEVER).epoch < 2**53


def test_update_keeps_idle_model_awake_for_limited_time() -> None:
    health = UPDATES
    before = replace(UPDATING, since=NOW - UPDATE_PATIENCE + MINUTE)
    assert step(before, SLEEPS, IDLE, health, NOW) == before
    after = step(before, SLEEPS, IDLE, health, NOW + MINUTE)
    assert (after.phase, after.gate) == (Phase.DRAINING, CLOSED)


WAITS, ANSWERS = Health(False, MINUTE, waits=True), Health(True, MINUTE, waits=True)
QUEUES = Health(False, MINUTE, waits=True, queues=True)
JUST_WOKEN = replace(WAKING, since=NOW)
GONE, JUST_GONE = replace(IDLE, idle=YIELD_IDLE), replace(IDLE, idle=YIELD_IDLE / 2)


@pytest.mark.parametrize(
    ("before", "sleep_policy", "traffic", "health", "after"),
    [
        pytest.param(WAKING, SLEEPS, IDLE, WAITS, changed(WAKING, Phase.DRAINING, CLOSED), id="all left"),
        pytest.param(
            FAILED,
            SLEEPS,
            IDLE,
            Health(False, MINUTE, failed=BROKEN, waits=True),
            changed(FAILED, Phase.DRAINING, CLOSED),
            id="all were refused",
        ),
        pytest.param(WAKING, SLEEPS, LATELY, WAITS, WAKING, id="one may come back"),
        pytest.param(
            WAKING, SLEEPS, GONE, QUEUES, changed(WAKING, Phase.DRAINING, CLOSED), id="all left the queue"
        ),
        pytest.param(WAKING, SLEEPS, JUST_GONE, QUEUES, WAKING, id="one comes again in a moment"),
        pytest.param(JUST_WOKEN, SLEEPS, GONE, QUEUES, JUST_WOKEN, id="it wakes just now"),
        pytest.param(WAKING, SLEEPS, replace(GONE, held=1), QUEUES, WAKING, id="one is held in the queue"),
        pytest.param(WAKING, SLEEPS, replace(GONE, known=False), QUEUES, WAKING, id="a queue half unheard"),
        pytest.param(WAKING, IN_WINDOW, GONE, QUEUES, WAKING, id="the schedule wants it in the queue"),
        pytest.param(WAKING, KEPT_AWAKE, GONE, QUEUES, WAKING, id="a person wants it in the queue"),
        pytest.param(WAKING, SLEEPS, GONE, replace(QUEUES, on_trial=True), WAKING, id="a change is tried"),
        pytest.param(WAKING, SLEEPS, GONE, replace(QUEUES, waits=False), WAKING, id="it has had its turn"),
        pytest.param(WAKING, SLEEPS, UNHEARD, WAITS, WAKING, id="a gateway is not heard"),
        pytest.param(WAKING, SLEEPS, IDLE, DOWN, WAKING, id="it has room"),
        pytest.param(WAKING, NEVER, IDLE, WAITS, WAKING, id="it never sleeps"),
        pytest.param(WAKING, KEPT_AWAKE, IDLE, WAITS, WAKING, id="a person wants it awake"),
        pytest.param(WAKING, SLEEPS, IDLE, ANSWERS, changed(WAKING, Phase.AWAKE, OPEN), id="it is up"),
    ],
)
def test_unscheduled_wake_drains_only_after_all_clients_have_left(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health, after: SleepState
) -> None:
    assert step(before, sleep_policy, traffic, health, NOW) == after
