"""Waits for accelerators that others hold: the place in the queue, and how long it took who came first."""

from datetime import datetime, timedelta

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.gate_status import GateState, ModelGate, Phase, RoomStatus
from daybreak.gates.state_machine import SleepState
from daybreak.gates.traffic import Traffic
from daybreak.scheduling.turns import Turn

RECENT = 10
"""Waits that are remembered."""
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
    said = before.room if before is not None and before.room is not None else RoomStatus()
    since, recent, first_since = parse_time(said.first_since or ""), said.recent, None
    up = state.asleep is None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    waits = up and not has_room
    if waits and not turn.after:
        # It comes first, or has come first and the scheduler has not said yet that it finds no room.
        first_since = since or (now if turn.place == 1 else None)
    elif has_room and since is not None and state.asleep is None:
        recent = [*recent, max(0, round((now - since).total_seconds()))][-RECENT:]
    # Who is alone in wanting accelerators stands in no queue, and has no place by its requests.
    queues = waits and bool(turn.place or turn.after or first_since)
    oldest = held_since(before, traffic, now) if queues else None
    found = RoomStatus(
        place=turn.place or None if waits else None,
        expected_at=written(turn.expected) if waits and turn.expected is not None else None,
        first_since=written(first_since) if first_since is not None else None,
        held_since=written(oldest) if oldest is not None else None,
        recent=recent,
    )
    return found if found != RoomStatus() else None


def first_since(gate: ModelGate | None) -> datetime | None:
    """Since when a model has come first, as the status says it."""
    return parse_time(gate.room.first_since or "") if gate is not None and gate.room is not None else None


def held_since(gate: ModelGate | None, traffic: Traffic, now: datetime) -> datetime | None:
    """Since when the oldest request has been held for a model, to the second; None: none is, or nobody tells.

    What the status says stays as long as gateways tell the same but for the time that reports take: places in
    a queue do not change for that. It also stays where one of them is not heard, which may hold the oldest.
    """
    said = parse_time(gate.room.held_since or "") if gate is not None and gate.room is not None else None
    if traffic.held_for is None:
        return said if not traffic.known else None
    told = (now - traffic.held_for).replace(microsecond=0)
    if said is not None and (abs(told - said) <= SAME or (told > said and not traffic.known)):
        return said
    return told


def room_seconds(gate: ModelGate | None) -> tuple[int, ...]:
    """How long it has taken before until a model had room, as the status says it."""
    return tuple(gate.room.recent) if gate is not None and gate.room is not None else ()
