"""Common parts of the statuses of kinds with one job: conditions, times, cost and events."""

from datetime import datetime
from typing import Any, Protocol

from daybreak.api.common.condition_list import Made, dated
from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.jobs.words import JobConditionType, JobPhase
from daybreak.jobs.decision import Decision
from daybreak.jobs.observed import ObservedT
from daybreak.jobs.verdict import Verdict
from daybreak.problems.events import Event

COUNT_SECONDS = 20.0
"""Interval at which the cost is written while nothing else changes, in seconds."""
TOLD = (JobPhase.RUNNING, JobPhase.SUSPENDED, JobPhase.SUCCEEDED)
"""Phases that get events. `Stalled` reports failures."""


class JobStatus(Protocol):
    """Common part of the status of every kind."""

    @property
    def phase(self) -> Any:
        """Phase, for display."""
        ...

    @property
    def start_time(self) -> str | None:
        """Time at which the first job was created."""
        ...

    @property
    def completion_time(self) -> str | None:
        """Time at which the object ended."""
        ...

    @property
    def conditions(self) -> list[Condition]:
        """Conditions of the object."""
        ...

    @property
    def accelerators(self) -> int:
        """Accelerators in use."""
        ...

    @property
    def accelerator_seconds(self) -> float:
        """Accelerator-seconds used so far."""
        ...

    @property
    def accelerator_seconds_time(self) -> str | None:
        """Time up to which the accelerator-seconds are counted."""
        ...

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the status in its written form."""
        ...


def update(observed: ObservedT, before: JobStatus, decision: Decision, held: int) -> dict[str, object]:
    """Return the changed fields of a status, by name.

    Args:
        observed: The observation.
        before: The previous status.
        decision: The decision.
        held: Accelerators that the pods hold.
    """
    found: dict[str, object] = {"observed_generation": observed.generation}
    verdict = decision.verdict
    if verdict is not None:
        moment = written(observed.now)
        found |= {
            "start_time": before.start_time or (moment if observed.job is not None else None),
            "completion_time": before.completion_time or (moment if verdict.final else None),
            "job_hash": decision.job or None,
            "conditions": _conditions(observed, verdict),
        }
    return found | cost(before, held, observed.now)


def _conditions(observed: ObservedT, verdict: Verdict) -> list[Condition]:
    phase, reason, message = verdict.phase, verdict.reason, verdict.message
    still = verdict.final or verdict.stalled or verdict.waiting or phase is JobPhase.SUSPENDED
    made = [
        Made(JobConditionType.COMPLETE, phase is JobPhase.SUCCEEDED, reason, message),
        Made(JobConditionType.FAILED, phase is JobPhase.FAILED, reason, message),
        Made(JobConditionType.RECONCILING, not still, reason, message),
        Made(JobConditionType.STALLED, verdict.stalled, reason, message),
    ]
    return dated(observed.status, made, observed.now, observed.generation)


def cost(before: JobStatus, held: int, now: datetime) -> dict[str, object]:
    """Return the accelerators in use and their cost so far, or no fields if no write is due.

    Accelerators count from the last write. While their number does not change, the count is written only
    every `COUNT_SECONDS`.
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
    """Return the events for a status change: a problem that requires action, or a reported phase."""
    stalled, was = _of(after, JobConditionType.STALLED), _of(before, JobConditionType.STALLED)
    if stalled is not None and stalled.status == "True":
        if was is None or was.status != "True" or was.reason != stalled.reason:
            return [Event(action, True, stalled.reason, stalled.message)]
        return []
    report = _of(after, JobConditionType.RECONCILING)
    if report is not None and after.phase != before.phase and after.phase in TOLD:
        return [Event(action, False, str(after.phase), report.message)]
    return []


def _of(status: JobStatus, kind: str) -> Condition | None:
    return next((each for each in status.conditions if each.type == kind), None)
