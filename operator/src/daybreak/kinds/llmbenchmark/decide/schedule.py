"""Schedule of a benchmark's runs: a pure function of its spec, its status and the time.

`status.nextScheduleTime` persists the next start. A run begins when that time has come. Before a Job exists,
the status records the run and the start after it. Therefore no start is used twice, even if the operator
crashes.
"""

from dataclasses import dataclass
from datetime import datetime

from daybreak.api.common.unstructured import parse_time
from daybreak.api.gates.schedule_rules import next_start
from daybreak.api.llmbenchmark.spec import BenchmarkSchedule
from daybreak.api.llmbenchmark.status import LLMBenchmarkStatus
from daybreak.api.schema.custom_object import known_status
from daybreak.api.schema.scalars import parse_duration
from daybreak.kinds.llmbenchmark.observe.observed import Observed


@dataclass(frozen=True)
class Turn:
    """Position of a benchmark in its schedule."""

    run: datetime | None
    """Scheduled start of the current or last run. None if there is no such run."""
    next: datetime | None
    """Start of the next run. None if it is unknown."""
    begins: bool = False
    """True if `run` begins now."""
    clears: bool = False
    """True if the next run is due but objects of the previous run remain."""
    left_out: datetime | None = None
    """Time at which `run` is skipped if it has no Job by then. None if it has a Job, or if there is no such
    run."""


def words(schedule: BenchmarkSchedule) -> str:
    """Return the schedule in the form that the status records."""
    return f"{schedule.start} {schedule.time_zone}"


def turn(observed: Observed) -> Turn | None:
    """Return the position in the schedule, or None without a schedule or with an invalid one."""
    if observed.subject is None or observed.problems or observed.subject.spec.schedule is None:
        return None
    schedule, status = observed.subject.spec.schedule, known_status(LLMBenchmarkStatus, observed.status)
    run, latest = (
        _moment(status.last_schedule_time),
        observed.now - parse_duration(schedule.starting_deadline),
    )
    ended = run if observed.finished else None
    if observed.subject.spec.suspend:
        return Turn(ended, None)
    if not observed.finished and (status.job_hash or (run is not None and run >= latest)):
        deadline = (
            None if status.job_hash or run is None else run + parse_duration(schedule.starting_deadline)
        )
        # Starts during a run are skipped.
        return Turn(run, next_start(schedule, observed.now), left_out=deadline)
    planned = _moment(status.next_schedule_time) if status.schedule == words(schedule) else None
    if planned is None:
        return Turn(ended, next_start(schedule, observed.now))
    due = planned if planned >= latest else next_start(schedule, latest)
    if due is None or due > observed.now:
        return Turn(ended, due)
    if observed.job is not None or observed.pods:
        return Turn(ended, due, clears=True)
    return Turn(due, next_start(schedule, observed.now), begins=True)


def _moment(written: str | None) -> datetime | None:
    return parse_time(written) if written else None
