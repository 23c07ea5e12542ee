"""A model's wait for accelerators, and the durations of earlier waits, as kept in the status."""

from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase, RoomStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.room import first_since, held_since, look_again, overdue, room_seconds, room_status
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import UNKNOWN, Traffic
from daybreak.scheduling.claim import NO_MATTER, Turn
from daybreak.scheduling.turn_words import waiting

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WAKING = SleepState(Phase.WAKING, NOW, None, GateState.CLOSED, 1)
AWAKE = SleepState(Phase.AWAKE, NOW, None, GateState.OPEN, 2)
ASLEEP = SleepState(Phase.ASLEEP, NOW, SleepDepth.WORKERS, GateState.CLOSED, 3)
FIRST, SECOND = Turn(place=1), Turn(after=("default/x",), place=2)


def gate(room: RoomStatus | None) -> ModelGate:
    """Return a gate with this queue status."""
    more: dict[str, Any] = {"state": "Closed", "epoch": 1, "hold_seconds": 60, "phase": "Waking"}
    return ModelGate(name="m", phase_transition_time="2026-01-02T03:04:05Z", accelerator_queue=room, **more)


def history(*steps: tuple[float, SleepState, Turn, bool]) -> RoomStatus | None:
    """Return the queue status after steps, each at the given seconds after the start."""
    message: RoomStatus | None = None
    for second, state, turn, has_room in steps:
        moment = NOW + timedelta(seconds=second)
        message = room_status(gate(message), state, turn, UNKNOWN, has_room=has_room, now=moment)
    return message


def held(seconds: float, *, known: bool = True) -> Traffic:
    """Return the traffic with an oldest request that has been held for the given seconds."""
    return Traffic(known=known, held=2, held_for=timedelta(seconds=seconds))


def test_queue_status_is_none_if_model_never_waits() -> None:
    steps = ((0, WAKING, NO_MATTER, False), (1, WAKING, NO_MATTER, True), (9, AWAKE, NO_MATTER, True))
    assert history(*steps) is None


def test_wait_is_measured_from_first_position_until_pods_are_scheduled() -> None:
    queued = ((0, WAKING, SECOND, False), (10, WAKING, FIRST, False))
    report = history(*queued)
    assert report is not None
    assert (report.position, report.head_time, report.recent_wait_seconds) == (1, "2026-01-02T03:04:15Z", [])
    assert first_since(gate(report)) == NOW + timedelta(seconds=10)
    # The model creates its pods, and the scheduler has not yet reported insufficient capacity.
    trying = (*queued, (12, WAKING, NO_MATTER, False))
    report = history(*trying)
    assert report is not None
    assert (report.position, report.head_time) == (None, "2026-01-02T03:04:15Z")
    report = history(*trying, (40, WAKING, NO_MATTER, True), (90, AWAKE, NO_MATTER, True))
    assert report == RoomStatus(recent_wait_seconds=[30])
    assert room_seconds(gate(report)) == (30,)


def test_oldest_request_time_ignores_delay_of_reports() -> None:
    first = room_status(gate(None), WAKING, SECOND, held(9.8), has_room=False, now=NOW)
    assert first is not None
    assert first.oldest_request_time == "2026-01-02T03:03:55Z"
    for late in (-1.4, -0.3, 0.0, 0.3, 1.4):
        later = NOW + timedelta(seconds=60)
        again = room_status(gate(first), WAKING, SECOND, held(69.8 + late), has_room=False, now=later)
        assert again == first, "a fixed state means no writes"
    # The oldest request has left.
    left = room_status(gate(first), WAKING, SECOND, held(3), has_room=False, now=NOW)
    assert left is not None
    assert left.oldest_request_time == "2026-01-02T03:04:02Z"
    # The oldest request may be at the gateway without a report.
    for traffic in (held(3, known=False), UNKNOWN):
        assert held_since(gate(first), traffic, NOW) == NOW - timedelta(seconds=10)
    older = held_since(gate(first), held(30, known=False), NOW)
    assert older == NOW - timedelta(seconds=30)
    assert held_since(gate(first), Traffic(known=True), NOW) is None
    untold = Traffic(known=True, held=1)
    assert held_since(gate(None), untold, NOW) is None, "a gateway of before"


def test_model_outside_queue_reports_no_oldest_request() -> None:
    assert room_status(gate(None), WAKING, NO_MATTER, held(9), has_room=False, now=NOW) is None
    message = RoomStatus(
        position=1, head_time="2026-01-02T03:04:00Z", oldest_request_time="2026-01-02T03:03:00Z"
    )
    up = room_status(gate(message), WAKING, NO_MATTER, held(65), has_room=True, now=NOW)
    assert up == RoomStatus(recent_wait_seconds=[5])


def test_wait_that_ends_without_room_is_not_measured() -> None:
    assert history((0, WAKING, FIRST, False), (50, ASLEEP, NO_MATTER, False)) is None
    overtaken = history((0, WAKING, FIRST, False), (50, WAKING, SECOND, False))
    assert overtaken == RoomStatus(position=2)
    # From the time at which the model was first again.
    again = ((60, WAKING, FIRST, False), (65, WAKING, NO_MATTER, True))
    assert history((0, WAKING, FIRST, False), (50, WAKING, SECOND, False), *again) == RoomStatus(
        recent_wait_seconds=[5]
    )


def test_last_ten_waits_are_kept() -> None:
    steps = [
        (each, WAKING, FIRST, False) if at == 0 else (each + number, WAKING, NO_MATTER, True)
        for number in range(12)
        for at, each in enumerate((100 * number, 100 * number))
    ]
    report = history(*steps)
    assert report is not None
    assert report.recent_wait_seconds == list(range(2, 12))


def test_expected_time_is_reported_while_model_waits() -> None:
    expecting = Turn(
        after=("default/x",), place=2, expected=NOW + timedelta(minutes=1), held_by=("default/y",)
    )
    report = history((0, WAKING, expecting, False))
    assert report is not None
    assert report.expected_time == "2026-01-02T03:05:05Z"
    assert waiting(expecting.after, expecting) == (
        "queued for accelerators at position 2 behind default/x; used by default/y; "
        "expected at 2026-01-02T03:05:05Z"
    )
    assert history((0, WAKING, expecting, True)) is None


def test_first_model_lets_others_try_after_hold_timeout_for_limited_time() -> None:
    behind = [(second, WAKING, SECOND, False) for second in range(0, 600, 30)]
    assert not overdue(gate(history(*behind))), "it has not tried yet"
    first = [*behind, *((600 + second, WAKING, FIRST, False) for second in (0, 30, 59))]
    assert not overdue(gate(history(*first)))
    assert look_again(gate(history(*first)), NOW + timedelta(seconds=659)) == timedelta(seconds=1)
    late = [*first, (660, WAKING, FIRST, False)]
    report = history(*late)
    assert report is not None
    assert (report.overdue_time, report.head_time) == ("2026-01-02T03:15:05Z", None)
    # The others try for three times as long, even if waiting models change.
    others = [*late, *((660 + second, WAKING, SECOND, False) for second in (1, 90, 179))]
    assert overdue(gate(history(*others)))
    assert look_again(gate(history(*others)), NOW + timedelta(seconds=839)) == timedelta(seconds=1)
    back = [*others, (840, WAKING, SECOND, False)]
    assert not overdue(gate(history(*back)))
    again = history(*back, (841, WAKING, FIRST, False))
    assert again is not None
    assert again.head_time == "2026-01-02T03:18:06Z"


def test_model_keeps_position_after_oldest_request_times_out() -> None:
    message = RoomStatus(position=2, oldest_request_time="2026-01-02T03:03:00Z")
    # The oldest request was rejected after 60 s, and younger ones are held.
    assert held_since(gate(message), held(20), NOW) == NOW - timedelta(seconds=65)
    assert held_since(gate(message), Traffic(known=True), NOW) is None
    # This request left on its own.
    young = RoomStatus(position=2, oldest_request_time="2026-01-02T03:03:25Z")
    assert held_since(gate(young), held(20), NOW) == NOW - timedelta(seconds=20)
