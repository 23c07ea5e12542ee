"""What statuses of kinds with one job have in common: conditions, times, cost, what is worth an event."""

from datetime import datetime
from typing import Any, Protocol

from daybreak.api.common.condition_list import Made, dated
from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.jobs.words import JobConditionType, JobPhase
from daybreak.jobs.decision import Decision
from daybreak.jobs.observed import Seen
from daybreak.jobs.verdict import Verdict
from daybreak.problems.events import Event

COUNT_SECONDS = 20.0
"""How often the cost is written while nothing else changes."""
TOLD = (JobPhase.RUNNING, JobPhase.SUSPENDED, JobPhase.SUCCEEDED)
"""The phases that get events; what has failed is told by `Stalled`."""


class JobStatus(Protocol):
    """The part of a status that is the same for every kind."""

    @property
    def phase(self) -> Any:
        """One word."""
        ...

    @property
    def start_time(self) -> str | None:
        """When its first job was made."""
        ...

    @property
    def completion_time(self) -> str | None:
        """When it ended."""
        ...

    @property
    def conditions(self) -> list[Condition]:
        """Its conditions."""
        ...

    @property
    def accelerators(self) -> int:
        """Accelerators that are held."""
        ...

    @property
    def accelerator_seconds(self) -> float:
        """What they have cost."""
        ...

    @property
    def accelerator_seconds_time(self) -> str | None:
        """Until when that is counted."""
        ...

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """The status as it is written."""
        ...


def update(seen: Seen, before: JobStatus, decision: Decision, held: int) -> dict[str, object]:
    """What changes of a status, by the names of its fields.

    Args:
        seen: What is seen.
        before: The status before.
        decision: What was decided.
        held: Accelerators that its pods hold.
    """
    found: dict[str, object] = {"observed_generation": seen.generation}
    verdict = decision.verdict
    if verdict is not None:
        moment = written(seen.now)
        found |= {
            "start_time": before.start_time or (moment if seen.job is not None else None),
            "completion_time": before.completion_time or (moment if verdict.final else None),
            "job_hash": decision.job or None,
            "conditions": _conditions(seen, verdict),
        }
    return found | cost(before, held, seen.now)


def _conditions(seen: Seen, verdict: Verdict) -> list[Condition]:
    phase, reason, message = verdict.phase, verdict.reason, verdict.message
    still = verdict.final or verdict.stalled or verdict.waiting or phase is JobPhase.SUSPENDED
    made = [
        Made(JobConditionType.COMPLETE, phase is JobPhase.SUCCEEDED, reason, message),
        Made(JobConditionType.FAILED, phase is JobPhase.FAILED, reason, message),
        Made(JobConditionType.RECONCILING, not still, reason, message),
        Made(JobConditionType.STALLED, verdict.stalled, reason, message),
    ]
    return dated(seen.status, made, seen.now, seen.generation)


def cost(before: JobStatus, held: int, now: datetime) -> dict[str, object]:
    """What is held, and what it has cost so far, as far as it is to be written.

    What was held since the last count counts; in between it is not written anew as long as nothing changes.
    """
    until = parse_time(before.accelerator_seconds_time) if before.accelerator_seconds_time else None
    passed = max(0.0, (now - until).total_seconds()) if until is not None else 0.0
    if held == before.accelerators and passed < COUNT_SECONDS and until is not None:
        return {}
    if held == 0 and before.accelerators == 0:
        return {}
    total = round(before.accelerator_seconds + before.accelerators * passed, 1)
    return {"accelerators": held, "accelerator_seconds": total, "accelerator_seconds_time": written(now)}


def events(action: str, before: JobStatus, after: JobStatus) -> list[Event]:
    """What has turned: why somebody has to act, or one of the phases that are told."""
    stalled, was = _of(after, JobConditionType.STALLED), _of(before, JobConditionType.STALLED)
    if stalled is not None and stalled.status == "True":
        if was is None or was.status != "True" or was.reason != stalled.reason:
            return [Event(action, True, stalled.reason, stalled.message)]
        return []
    said = _of(after, JobConditionType.RECONCILING)
    if said is not None and after.phase != before.phase and after.phase in TOLD:
        return [Event(action, False, str(after.phase), said.message)]
    return []


def _of(status: JobStatus, kind: str) -> Condition | None:
    return next((each for each in status.conditions if each.type == kind), None)
