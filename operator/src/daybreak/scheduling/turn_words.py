"""What is said of a model that waits for accelerators, or for cores and memory."""

from collections.abc import Sequence

from daybreak.api.common.unstructured import written
from daybreak.scheduling.claim import Turn


def waiting(before: Sequence[str], turn: Turn) -> str:
    """What it waits for, who comes before it, who holds what it waits for, and when it may expect room.

    Nobody comes before the first one in line.
    """
    if turn.preempts:
        return f"it waits until pods of a lower priority have left: {_named(before)}, which finish what runs"
    wanted = "cores and memory" if turn.cores else " and ".join(turn.lacks) or "accelerators"
    return f"it waits for {wanted}{_line(before, turn, 'they are held by')}"


def no_room(before: Sequence[str], turn: Turn) -> str:
    """The same where it is not known what it is that it waits for."""
    return f"its pods find no room{_line(before, turn, 'what they want is held by')}"


def _line(before: Sequence[str], turn: Turn, held: str) -> str:
    """Who comes before it, who holds what it waits for, its place, and when it may expect room."""
    who = f": {_several(before)} before it" if before else ""
    holders = f"; {held} {_named(turn.held_by)}" if turn.held_by else ""
    place = f"; its place is {turn.place}" if turn.place else ""
    hopeless = "; pods outside the queue use so much that no model can free enough" if turn.hopeless else ""
    room = f"; by waits before, room is there at {written(turn.expected)}" if turn.expected else ""
    return f"{who}{holders}{place}{hopeless}{room}"


def _named(owners: Sequence[str]) -> str:
    more = f" and {len(owners) - 3} more" if len(owners) > 3 else ""
    return f"{', '.join(owners[:3])}{more}"


def _several(owners: Sequence[str]) -> str:
    """Who comes first, as the beginning of a sentence with its verb."""
    if len(owners) == 1:
        return f"{owners[0]} comes"
    more = f" and {len(owners) - 2} more" if len(owners) > 2 else ""
    return f"{owners[0]}, {owners[1]}{more} come"
