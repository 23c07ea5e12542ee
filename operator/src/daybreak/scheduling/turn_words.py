"""Messages for a model that waits for accelerators, or for CPUs and memory."""

from collections.abc import Sequence

from daybreak.api.common.unstructured import written
from daybreak.scheduling.claim import Turn


def waiting(before: Sequence[str], turn: Turn) -> str:
    """Return the message with the required resource, the models ahead, the holders, and the expected time.

    No model is ahead of the first one in the queue.
    """
    if turn.preempts:
        return f"queued until pods of a lower priority finish their requests and terminate: {_named(before)}"
    desired = "CPUs and memory" if turn.cores else " and ".join(turn.lacks) or "accelerators"
    return f"queued for {desired}{_line(before, turn)}"


def no_room(before: Sequence[str], turn: Turn) -> str:
    """Return the message of `waiting` for an unknown resource."""
    return f"pods cannot be scheduled, queued{_line(before, turn)}"


def _line(before: Sequence[str], turn: Turn) -> str:
    """Return the part with the position, the models ahead, the holders and the expected time."""
    position = f" at position {turn.place}" if turn.place else ""
    behind = f" behind {_named(before, 2)}" if before else ""
    holders = f"; used by {_named(turn.held_by)}" if turn.held_by else ""
    hopeless = "; pods outside the queue use so much that no model can free enough" if turn.hopeless else ""
    expected = f"; expected at {written(turn.expected)}" if turn.expected else ""
    return f"{position}{behind}{holders}{hopeless}{expected}"


def _named(owners: Sequence[str], maximum: int = 3) -> str:
    """Return the first owners, and the number of the others."""
    more = f" and {len(owners) - maximum} more" if len(owners) > maximum else ""
    return f"{', '.join(owners[:maximum])}{more}"
