"""Waits for accelerators that others hold: the place in the queue, and how long it took who came first."""

from datetime import datetime

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.gate_status import GateState, ModelGate, Phase, RoomStatus
from daybreak.gates.state_machine import SleepState
from daybreak.scheduling.turns import Turn

RECENT = 10
"""Waits that are remembered."""


def room_status(
    before: ModelGate | None, state: SleepState, turn: Turn, *, has_room: bool, now: datetime
) -> RoomStatus | None:
    """What to say of a model's waits; None: it never waited.

    Args:
        before: Its gate as it stands in the status.
        state: Its sleep from here on.
        turn: Its turn.
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
    found = RoomStatus(
        place=turn.place or None if waits else None,
        expected_at=written(turn.expected) if waits and turn.expected is not None else None,
        first_since=written(first_since) if first_since is not None else None,
        recent=recent,
    )
    return found if found != RoomStatus() else None


def first_since(gate: ModelGate | None) -> datetime | None:
    """Since when a model has come first, as the status says it."""
    return parse_time(gate.room.first_since or "") if gate is not None and gate.room is not None else None


def room_seconds(gate: ModelGate | None) -> tuple[int, ...]:
    """How long it has taken before until a model had room, as the status says it."""
    return tuple(gate.room.recent) if gate is not None and gate.room is not None else ()
