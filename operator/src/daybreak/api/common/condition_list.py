"""Conditions of a status, with the time of their last transition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak.api.common.conditions import Condition, ShortCondition, Truth
from daybreak.api.common.unstructured import mappings, text, written

MESSAGE_LIMIT = 8000
"""Maximum length of a message, in characters."""


@dataclass(frozen=True)
class Made:
    """Current state of a condition, without a time."""

    type: str
    holds: bool | None
    """True or False for the status of the condition, or None if it is unknown."""
    reason: str
    message: str


def made_of(kind: str, report: ShortCondition) -> Made:
    """Return a condition of a kind from its short form."""
    status, reason, message = report
    return Made(kind, None if status == "Unknown" else status == "True", reason, message)


def dated(before: Mapping[str, Any], made: Sequence[Made], now: datetime, generation: int) -> list[Condition]:
    """Return the conditions, each with the time of its last transition.

    Args:
        before: The previous status.
        made: The current conditions.
        now: The current time.
        generation: Generation of the spec that the conditions describe.
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
    """Return a message within the limit; an ellipsis marks a cut."""
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"
