"""What is said of a model that waits for accelerators."""

from collections.abc import Sequence

from daybreak.api.common.unstructured import written
from daybreak.scheduling.turns import Turn


def waiting(before: Sequence[str], turn: Turn) -> str:
    """What it waits for, who comes before it, who holds what it waits for, and when it may expect room."""
    place = f"; its place is {turn.place}" if turn.place else ""
    room = f"; by waits before, room is there at {written(turn.expected)}" if turn.expected else ""
    return f"it waits for accelerators: {_several(before)} before it{_held(turn.held_by)}{place}{room}"


def _held(owners: Sequence[str]) -> str:
    """Who holds what is waited for, as the end of a sentence."""
    if not owners:
        return ""
    more = f" and {len(owners) - 3} more" if len(owners) > 3 else ""
    return f"; they are held by {', '.join(owners[:3])}{more}"


def _several(owners: Sequence[str]) -> str:
    """Who comes first, as the beginning of a sentence with its verb."""
    if len(owners) == 1:
        return f"{owners[0]} comes"
    more = f" and {len(owners) - 2} more" if len(owners) > 2 else ""
    return f"{owners[0]}, {owners[1]}{more} come"
