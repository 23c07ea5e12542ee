"""Making conditions: the time of a condition is when its status last changed, and nothing else moves it."""

from collections.abc import Mapping
from typing import Any, Literal

from daybreak.api.common.conditions import Condition, ConditionType, Reason
from daybreak.api.common.unstructured import mapping, mappings, text, whole, written
from daybreak.kinds.llmservice.observe.observed import Observed

Truth = Literal["True", "False", "Unknown"]
Said = tuple[Truth, Reason, str]
"""A condition in short: its status, its reason, its message."""
MESSAGE_LIMIT = 8000
"""Longest message, in characters."""


class Conditions:
    """Conditions of one status, made from those before."""

    def __init__(self, seen: Observed) -> None:
        status = seen.status
        self._before: dict[str, Mapping[str, Any]] = {
            text(item.get("type")): item for item in mappings(status.get("conditions"))
        }
        self._generation = whole(mapping(seen.manifest.get("metadata")).get("generation"))
        self._now = written(seen.now)
        self.made: list[Condition] = []

    def set(self, kind: ConditionType, status: Truth, reason: Reason, message: str) -> None:
        """Add a condition."""
        before = self._before.get(kind, {})
        since = text(before.get("lastTransitionTime")) if before.get("status") == status else ""
        self.made.append(
            Condition(
                type=kind.value,
                status=status,
                reason=reason.value,
                message=message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…",
                last_transition_time=since or self._now,
                observed_generation=max(0, self._generation),
            )
        )
