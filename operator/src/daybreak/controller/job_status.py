"""What the statuses of kinds with a job have in common: conditions, what is worth an event, and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import mappings, parse_time, text, written
from daybreak.controller.events import Event

MESSAGE_LIMIT = 8000
COUNT_SECONDS = 20.0
"""How often the cost is written while nothing else changes."""
STALLED = "Stalled"
RECONCILING = "Reconciling"
Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Made:
    """A condition as it is now."""

    type: str
    holds: bool | None
    """None: that is not known."""
    reason: str
    message: str


def conditions(
    before: Mapping[str, Any], made: Sequence[Made], now: datetime, generation: int
) -> list[Condition]:
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


class Costly(Protocol):
    """A status that says what accelerators have cost."""

    @property
    def gpus(self) -> int:
        """Accelerators that are held."""
        ...

    @property
    def gpu_seconds(self) -> float:
        """What they have cost."""
        ...

    @property
    def gpu_seconds_until(self) -> str | None:
        """Until when that is counted."""
        ...


def cost(before: Costly, held: int, now: datetime) -> dict[str, object]:
    """What is held, and what it has cost so far, as far as it is to be written.

    What was held since the last count counts; in between it is not written anew as long as nothing changes.
    """
    until = parse_time(before.gpu_seconds_until) if before.gpu_seconds_until else None
    passed = max(0.0, (now - until).total_seconds()) if until is not None else 0.0
    if held == before.gpus and passed < COUNT_SECONDS and until is not None:
        return {}
    if held == 0 and before.gpus == 0:
        return {}
    total = round(before.gpu_seconds + before.gpus * passed, 1)
    return {"gpus": held, "gpu_seconds": total, "gpu_seconds_until": written(now)}


class Phased(Protocol):
    """A status with a phase and conditions."""

    @property
    def phase(self) -> Any:
        """One word."""
        ...

    @property
    def conditions(self) -> list[Condition]:
        """Its conditions."""
        ...


def events(action: str, before: Phased, after: Phased, told: Sequence[str]) -> list[Event]:
    """What has turned: why somebody has to act, or one of the phases that are told."""
    stalled, was = _of(after, STALLED), _of(before, STALLED)
    if stalled is not None and stalled.status == "True":
        if was is None or was.status != "True" or was.reason != stalled.reason:
            return [Event(action, True, stalled.reason, stalled.message)]
        return []
    said = _of(after, RECONCILING)
    if said is not None and after.phase != before.phase and after.phase in told:
        return [Event(action, False, str(after.phase), said.message)]
    return []


def _of(status: Phased, kind: str) -> Condition | None:
    return next((each for each in status.conditions if each.type == kind), None)
