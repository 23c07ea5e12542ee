"""Conditions of a status: what is true now, and since when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import mappings, text, written

MESSAGE_LIMIT = 8000
Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Made:
    """A condition as it is now."""

    type: str
    holds: bool | None
    """None: that is not known."""
    reason: str
    message: str


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
                message=each.message[:MESSAGE_LIMIT],
                last_transition_time=since or written(now),
                observed_generation=generation,
            )
        )
    return found
