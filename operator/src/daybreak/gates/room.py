"""Waits for accelerators that others hold: the place in the queue, and how long it took who came first."""

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
"""Waits that are remembered."""
OTHERS_TRY = 3
"""For how many times as long as its requests may be held who has found no room in such a time lets the others
try: what never fits is in their way for a quarter of the time at most, and what fits comes to its turn."""
SAME = timedelta(seconds=2)
"""By how much the time at which a request came may be told differently: reports take some time."""


def room_status(
    before: ModelGate | None,
    state: SleepState,
    turn: Turn,
    traffic: Traffic,
    *,
    has_room: bool,
    now: datetime,
) -> RoomStatus | None:
    """What to say of a model's waits; None: it never waited.

    Args:
        before: Its gate as it stands in the status.
        state: Its sleep from here on.
        turn: Its turn.
        traffic: What gateways say of the requests to it.
        has_room: Whether the pods of one replica have found room.
        now: The time.
    """
    said = (
        before.accelerator_queue
        if before is not None and before.accelerator_queue is not None
        else RoomStatus()
    )
    since, recent, first_since, late = parse_time(said.head_time or ""), said.recent_wait_seconds, None, None
    up = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    waits = up and not has_room
    if waits and before is not None:
        late = _overdue_since(before, said, Moments(now))
        since = since if late is None else None
    if waits and not turn.after and late is None:
        # It comes first, or has come first and the scheduler has not said yet that it finds no room.
        first_since = since or (now if turn.place == 1 else None)
    elif has_room and since is not None and state.asleep is None:
        recent = [*recent, max(0, round((now - since).total_seconds()))][-RECENT:]
    # Who is alone in wanting accelerators stands in no queue, and has no place by its requests.
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


def _overdue_since(before: ModelGate, said: RoomStatus, moments: Moments) -> datetime | None:
    """Since when a model that waits lets the others try; None: it does not, or has its place again.

    Only the time counts in which it came first. Who waits behind others for longer than its requests are held
    has not tried, and would never come to its turn if it lost its place for that.
    """
    hold = timedelta(seconds=before.hold_seconds)
    late, first = parse_time(said.overdue_time or ""), parse_time(said.head_time or "")
    if late is not None:
        return None if moments.reached(late + OTHERS_TRY * hold) else late
    return moments.now if first is not None and moments.reached(first + hold) else None


def overdue(gate: ModelGate | None) -> bool:
    """Whether a model lets the others try, as the status says it."""
    return (
        gate is not None
        and gate.accelerator_queue is not None
        and gate.accelerator_queue.overdue_time is not None
    )


def look_again(gate: ModelGate, now: datetime) -> timedelta | None:
    """When time alone changes whether a model lets the others try; None: never."""
    if gate.accelerator_queue is None:
        return None
    moments = Moments(now)
    late = _overdue_since(gate, gate.accelerator_queue, moments)
    changes = late != parse_time(gate.accelerator_queue.overdue_time or "")
    return timedelta(0) if changes else moments.look_again


def yielded_to(before: ModelGate | None, state: SleepState, turn: Turn) -> str | None:
    """For whose sake a model drains, or was put to sleep, as the status says it; None: for nobody's.

    It is kept to the end of that sleep: the turn itself goes by who holds accelerators at the moment.
    """
    if state.phase is not Phase.DRAINING and (state.asleep is None or state.phase is Phase.REPLACING):
        return None
    said = before.yielded_to if before is not None else None
    begins = before is None or (before.phase is not Phase.DRAINING and before.sleep_depth is None)
    return (turn.gives_way_to or None) if begins else said


def first_since(gate: ModelGate | None) -> datetime | None:
    """Since when a model has come first, or lets the others try after that, as the status says it."""
    if gate is None or gate.accelerator_queue is None:
        return None
    return parse_time(gate.accelerator_queue.head_time or gate.accelerator_queue.overdue_time or "")


def held_since(gate: ModelGate | None, traffic: Traffic, now: datetime) -> datetime | None:
    """Since when the oldest request has been held for a model, to the second; None: none is, or nobody tells.

    What the status says stays as long as gateways tell the same but for the time that reports take: places in
    a queue do not change for that. It also stays where one of them is not heard, which may hold the oldest;
    and where the oldest was refused after it had been held as long as it may be, while others are held: who
    waits longer than that keeps its place.
    """
    said = (
        parse_time(gate.accelerator_queue.oldest_request_time or "")
        if gate is not None and gate.accelerator_queue is not None
        else None
    )
    if traffic.held_for is None:
        return said if not traffic.known else None
    told = (now - traffic.held_for).replace(microsecond=0)
    if said is None or gate is None:
        return told
    refused = now - said >= timedelta(seconds=gate.hold_seconds) - SAME
    if abs(told - said) <= SAME or (told > said and (refused or not traffic.known)):
        return said
    return told


def room_seconds(gate: ModelGate | None) -> tuple[int, ...]:
    """How long it has taken before until a model had room, as the status says it."""
    return (
        tuple(gate.accelerator_queue.recent_wait_seconds)
        if gate is not None and gate.accelerator_queue is not None
        else ()
    )
