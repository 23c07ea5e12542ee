"""Waits for accelerators that others hold: the position in the queue, and the duration of recent waits."""

from datetime import datetime, timedelta

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.api.common.moments import Moments
from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase, RoomStatus
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import Traffic
from daybreak.scheduling.claim import Turn

RECENT = 10
"""Number of remembered waits."""
OTHERS_TRY = 3
"""Factor of the hold timeout for which an unschedulable model lets the others try.

The model does so after it has been first in the accelerator queue for one hold timeout. A model that never
fits therefore blocks the others for at most a quarter of the time, and a model that fits gets its turn.
"""
SAME = timedelta(seconds=2)
"""Tolerance for the arrival time of a request in two reports, because reports take some time."""


def room_status(
    before: ModelGate | None,
    state: SleepState,
    turn: Turn,
    traffic: Traffic,
    *,
    has_room: bool,
    now: datetime,
) -> RoomStatus | None:
    """Return the accelerator queue status of a model, or None if it never waited.

    Args:
        before: The previous gate in the status.
        state: New sleep state of the model.
        turn: Position of the model in the accelerator queue.
        traffic: Requests to the model, as gateways report them.
        has_room: True if the pods of one replica have been scheduled.
        now: The current time.
    """
    report = (
        before.accelerator_queue
        if before is not None and before.accelerator_queue is not None
        else RoomStatus()
    )
    since, recent, first_since, late = (
        parse_time(report.head_time or ""),
        report.recent_wait_seconds,
        None,
        None,
    )
    up = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    waits = up and not has_room
    if waits and before is not None:
        late = _overdue_since(before, report, Moments(now))
        since = since if late is None else None
    if waits and not turn.after and late is None:
        # The model is first, or was first and the scheduler has not yet reported its pods as unschedulable.
        first_since = since or (now if turn.place == 1 else None)
    elif has_room and since is not None and state.asleep is None:
        recent = [*recent, max(0, round((now - since).total_seconds()))][-RECENT:]
    # Without competitors for the accelerators a model is in no queue, and its requests give it no position.
    queues = waits and bool(turn.place or turn.after or first_since or late)
    oldest = held_since(before, traffic, now) if queues else None
    found = RoomStatus(
        position=turn.place or None if waits else None,
        expected_time=written(turn.expected) if waits and turn.expected is not None else None,
        held_by=list(turn.held_by[:MAX_AFTER]) or None if waits else None,
        head_time=written(first_since) if first_since is not None else None,
        overdue_time=written(late) if late is not None else None,
        oldest_request_time=written(oldest) if oldest is not None else None,
        recent_wait_seconds=recent,
    )
    return found if found != RoomStatus() else None


def _overdue_since(before: ModelGate, report: RoomStatus, moments: Moments) -> datetime | None:
    """Return since when a waiting model lets the others try, or None if it currently does not.

    Only the time in first position counts. A model that waits behind others for longer than its hold timeout
    has not tried. It would never get its turn if it lost its position for that.
    """
    hold = timedelta(seconds=before.hold_seconds)
    late, first = parse_time(report.overdue_time or ""), parse_time(report.head_time or "")
    if late is not None:
        return None if moments.reached(late + OTHERS_TRY * hold) else late
    return moments.now if first is not None and moments.reached(first + hold) else None


def overdue(gate: ModelGate | None) -> bool:
    """Return True if a model lets the others try, according to the status."""
    return (
        gate is not None
        and gate.accelerator_queue is not None
        and gate.accelerator_queue.overdue_time is not None
    )


def look_again(gate: ModelGate, now: datetime) -> timedelta | None:
    """Return the time until a model starts or stops to let the others try without an event, or None."""
    if gate.accelerator_queue is None:
        return None
    moments = Moments(now)
    late = _overdue_since(gate, gate.accelerator_queue, moments)
    changes = late != parse_time(gate.accelerator_queue.overdue_time or "")
    return timedelta(0) if changes else moments.look_again


def yielded_to(before: ModelGate | None, state: SleepState, turn: Turn) -> str | None:
    """Return the workload for which a model drains or sleeps, for the status, or None.

    The value stays until the end of that sleep. The accelerator queue itself uses the current holders.
    """
    if state.phase is not Phase.DRAINING and (state.asleep is None or state.phase is Phase.REPLACING):
        return None
    message = before.yielded_to if before is not None else None
    begins = before is None or (before.phase is not Phase.DRAINING and before.sleep_depth is None)
    return (turn.gives_way_to or None) if begins else message


def first_since(gate: ModelGate | None) -> datetime | None:
    """Return since when a model has been first, or lets the others try, according to the status."""
    if gate is None or gate.accelerator_queue is None:
        return None
    return parse_time(gate.accelerator_queue.head_time or gate.accelerator_queue.overdue_time or "")


def held_since(gate: ModelGate | None, traffic: Traffic, now: datetime) -> datetime | None:
    """Return the arrival time of the oldest held request, to the second, or None.

    The value in the status stays while reports differ only by their delay, so that positions in the queue do
    not change. It also stays if a gateway does not report, because that gateway may hold the oldest request.
    It also stays if the oldest request was rejected at the hold timeout while others are held: a model that
    waits longer than that keeps its position.
    """
    message = (
        parse_time(gate.accelerator_queue.oldest_request_time or "")
        if gate is not None and gate.accelerator_queue is not None
        else None
    )
    if traffic.held_for is None:
        return message if not traffic.known else None
    reported = (now - traffic.held_for).replace(microsecond=0)
    if message is None or gate is None:
        return reported
    refused = now - message >= timedelta(seconds=gate.hold_seconds) - SAME
    if abs(reported - message) <= SAME or (reported > message and (refused or not traffic.known)):
        return message
    return reported


def room_seconds(gate: ModelGate | None) -> tuple[int, ...]:
    """Return the recent durations until a model was scheduled, in seconds, according to the status."""
    return (
        tuple(gate.accelerator_queue.recent_wait_seconds)
        if gate is not None and gate.accelerator_queue is not None
        else ()
    )
