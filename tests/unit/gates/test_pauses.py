"""The memory of the pauses between requests."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.idle_status import PAUSE_CLASSES, IdleStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.pauses import CLASSES, MEMORY, expected_cost, remembered
from daybreak.gates.traffic import UNKNOWN, Pause, Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASLEEP,
    ASLEEP_FORCED,
    AWAKE,
    DRAINING,
    NOW,
    WAKING,
    sleep_state,
)

NOTHING = IdleStatus()
MINUTE = timedelta(minutes=1)


def quiet(idle: timedelta, pause: Pause | None = None) -> Traffic:
    """Return the traffic of a model without requests for the given time."""
    return Traffic(known=True, idle=idle, requested=idle, pause=pause)


def ended(length: timedelta, ago: timedelta = timedelta(0)) -> Traffic:
    """Return the traffic of a model with requests since a pause of this length ended."""
    return Traffic(known=True, in_flight=1, requested=timedelta(0), pause=Pause(length + ago, ago))


HELD = Traffic(known=True, held=1, requested=timedelta(0))


def classes(status: IdleStatus) -> dict[int, float]:
    """Return the weights that are not 0, by class."""
    return {number: each for number, each in enumerate(status.pauses) if each}


def test_ended_pause_is_counted_once() -> None:
    once = remembered(NOTHING, AWAKE, AWAKE, ended(3 * MINUTE), NOW)
    assert classes(once) == {3: 1}
    assert once.last_end_time == "2026-03-02T12:00:00Z"
    for later in (1, 20, 3000):
        ago = timedelta(seconds=later)
        assert remembered(once, AWAKE, AWAKE, ended(3 * MINUTE, ago), NOW + ago) is once


def test_next_pause_is_counted_and_older_pauses_fade() -> None:
    once = remembered(NOTHING, AWAKE, AWAKE, ended(3 * MINUTE), NOW)
    twice = remembered(once, AWAKE, AWAKE, ended(MINUTE), NOW + MINUTE)
    assert classes(twice) == {0: 1, 3: round(1 - 1 / MEMORY, 3)}
    known = twice
    for number in range(2, 1000):
        known = remembered(known, AWAKE, AWAKE, ended(2 * MINUTE), NOW + number * MINUTE)
    assert sum(known.pauses) == pytest.approx(MEMORY, abs=0.1)
    assert known.pauses[2] == pytest.approx(MEMORY, abs=0.1), "what was long ago is forgotten"


def test_pause_with_sleep_is_counted_from_its_start() -> None:
    asleep = remembered(NOTHING, AWAKE, DRAINING, quiet(15 * MINUTE), NOW)
    assert asleep == IdleStatus(start_time="2026-03-02T11:45:00Z")
    hour = NOW + timedelta(hours=1)
    for moment, idle in ((NOW + MINUTE, 16), (hour, 75)):
        assert remembered(asleep, DRAINING, ASLEEP, quiet(idle * MINUTE), moment) is asleep
    woken = remembered(asleep, ASLEEP, WAKING, HELD, hour)
    assert woken.start_time is None
    [number] = classes(woken)
    assert CLASSES[number] <= 75 * 60 < CLASSES[number + 1]
    # The gateways report that pause again.
    again = replace(ended(75 * MINUTE, 2 * MINUTE), in_flight=1)
    assert remembered(woken, WAKING, AWAKE, again, hour + 2 * MINUTE) is woken


def test_wake_without_request_does_not_end_pause() -> None:
    asleep = remembered(NOTHING, AWAKE, DRAINING, quiet(15 * MINUTE), NOW)
    hour = NOW + timedelta(hours=1)
    assert remembered(asleep, ASLEEP, WAKING, quiet(75 * MINUTE), hour) is asleep
    assert remembered(asleep, AWAKE, DRAINING, quiet(135 * MINUTE), hour + timedelta(hours=1)) is asleep


def test_new_gateway_does_not_end_pause() -> None:
    asleep = remembered(NOTHING, AWAKE, DRAINING, quiet(15 * MINUTE), NOW)
    new = Traffic(known=True, idle=timedelta(seconds=1))
    assert remembered(asleep, ASLEEP, ASLEEP, new, NOW + MINUTE) is asleep
    assert remembered(asleep, ASLEEP, ASLEEP, UNKNOWN, NOW + MINUTE) is asleep
    assert remembered(NOTHING, AWAKE, DRAINING, new, NOW) is NOTHING, "nobody knows when it began"


def test_pause_shorter_than_a_minute_is_ignored() -> None:
    for seconds in (0, 1, 30, 59):
        traffic = quiet(timedelta(seconds=seconds))
        assert remembered(NOTHING, AWAKE, AWAKE, traffic, NOW) is NOTHING
    assert remembered(NOTHING, AWAKE, AWAKE, ended(timedelta(seconds=59)), NOW) is NOTHING
    # The model yielded to another one after two seconds, and received a request immediately.
    asleep = remembered(NOTHING, AWAKE, DRAINING, quiet(timedelta(seconds=2)), NOW)
    assert remembered(asleep, ASLEEP, WAKING, HELD, NOW + timedelta(seconds=9)) == NOTHING


def test_model_with_held_request_starts_no_pause_when_it_drains() -> None:
    assert remembered(NOTHING, AWAKE, DRAINING, HELD, NOW) is NOTHING


def test_pause_is_dropped_while_model_is_forced_asleep() -> None:
    asleep = remembered(NOTHING, AWAKE, DRAINING, quiet(15 * MINUTE), NOW)
    forced = remembered(asleep, ASLEEP, ASLEEP_FORCED, quiet(timedelta(seconds=1)), NOW + MINUTE)
    assert forced == NOTHING
    assert remembered(forced, ASLEEP_FORCED, ASLEEP_FORCED, ended(5 * MINUTE), NOW + MINUTE) == NOTHING


def test_longest_pause_is_counted_in_last_class() -> None:
    year = remembered(NOTHING, AWAKE, AWAKE, ended(timedelta(days=365)), NOW)
    assert classes(year) == {PAUSE_CLASSES - 1: 1}


def test_pause_is_kept_if_clock_is_set_back() -> None:
    once = remembered(NOTHING, AWAKE, AWAKE, ended(3 * MINUTE), NOW)
    asleep = remembered(once, AWAKE, DRAINING, quiet(15 * MINUTE), NOW)
    back = NOW - timedelta(days=1)
    assert remembered(asleep, ASLEEP, ASLEEP, HELD, back) is asleep


def test_expected_cost_sums_pauses_up_to_idle_time_and_wakes() -> None:
    # Two of about 70 s, one of about 100 s, and one that does not end.
    pauses = [2.0, 1.0]
    first, second = CLASSES[0] * 2**0.25, CLASSES[1] * 2**0.25
    assert expected_cost(pauses, 60, 10) == pytest.approx(4 * 70, abs=0.01)
    assert expected_cost(pauses, 85, 10) == pytest.approx(2 * first + 2 * 95, abs=1)
    assert expected_cost(pauses, 120, 10) == pytest.approx(2 * first + second + 130, abs=1)


def test_model_that_replaces_its_pods_records_no_pause() -> None:
    replacing = sleep_state(Phase.REPLACING, GateState.CLOSED, asleep=SleepDepth.CLUSTER)
    assert remembered(NOTHING, replacing, replacing, HELD, NOW) is NOTHING
