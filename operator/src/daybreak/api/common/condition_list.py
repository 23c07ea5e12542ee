"""Conditions of a status: what is true now, and since when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak.api.common.conditions import Condition, Said, Truth
from daybreak.api.common.unstructured import mappings, text, written

MESSAGE_LIMIT = 8000
"""Longest message, in characters."""


@dataclass(frozen=True)
class Made:
    """A condition as it is now."""

    type: str
    holds: bool | None
    """None: that is not known."""
    reason: str
    message: str


def made_of(kind: str, said: Said) -> Made:
    """Return a condition of a kind, from what is said."""
    status, reason, message = said
    return Made(kind, None if status == "Unknown" else status == "True", reason, message)


def dated(before: Mapping[str, Any], made: Sequence[Made], now: datetime, generation: int) -> list[Condition]:
    """The conditions, each with the time since when it is as it is.

    Args:
        before: The status before.
        made: The conditions of now.
        now: The time.
        generation: Of the spec that they speak of.
    """
    old = {text(item.get("type")): item for item in mappings(before.get("conditions"))}
    found = []
    for each in made:
        truth: Truth = "Unknown" if each.holds is None else "True" if each.holds else "False"
        previous = old.get(each.type, {})
        since = text(previous.get("lastTransitionTime")) if previous.get("status") == truth else ""
        found.append(
            Condition(
                type=each.type,
                status=truth,
                reason=each.reason,
                message=_shortened(each.message),
                last_transition_time=since or written(now),
                observed_generation=generation,
            )
        )
    return found


def _shortened(message: str) -> str:
    """A message within the limit, with a sign where it was cut."""
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"
