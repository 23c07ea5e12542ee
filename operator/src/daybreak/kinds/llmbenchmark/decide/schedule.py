"""When a benchmark with a schedule runs: a pure function of its spec, its status and the time.

`status.nextScheduleTime` is the memory: a run begins when that has come, and the status says so, with the
start after it, before there is a Job. So no start is taken twice, whenever the operator dies.
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
    """Where it stands in its schedule."""

    run: datetime | None
    """The start that the run goes by which is under way or has ended last; None: there is none."""
    next: datetime | None
    """When the next one begins; None: it is not known."""
    begins: bool = False
    """Whether `run` begins this moment."""
    clears: bool = False
    """Whether the next one could begin, but for what is left of the one before."""
    left_out: datetime | None = None
    """When `run` is left out, if it has no Job by then; None: it has one, or there is no such run."""


def words(schedule: BenchmarkSchedule) -> str:
    """The schedule as the status remembers it."""
    return f"{schedule.start} {schedule.time_zone}"


def turn(seen: Observed) -> Turn | None:
    """Where it stands; None: it has no schedule, or none that can be read."""
    if seen.subject is None or seen.problems or seen.subject.spec.schedule is None:
        return None
    schedule, status = seen.subject.spec.schedule, known_status(LLMBenchmarkStatus, seen.status)
    run, latest = _moment(status.last_schedule_time), seen.now - parse_duration(schedule.starting_deadline)
    ended = run if seen.finished else None
    if seen.subject.spec.suspend:
        return Turn(ended, None)
    if not seen.finished and (status.job_hash or (run is not None and run >= latest)):
        deadline = (
            None if status.job_hash or run is None else run + parse_duration(schedule.starting_deadline)
        )
        # What comes during a run is left out.
        return Turn(run, next_start(schedule, seen.now), left_out=deadline)
    planned = _moment(status.next_schedule_time) if status.schedule == words(schedule) else None
    if planned is None:
        return Turn(ended, next_start(schedule, seen.now))
    due = planned if planned >= latest else next_start(schedule, latest)
    if due is None or due > seen.now:
        return Turn(ended, due)
    if seen.job is not None or seen.pods:
        return Turn(ended, due, clears=True)
    return Turn(due, next_start(schedule, seen.now), begins=True)


def _moment(written: str | None) -> datetime | None:
    return parse_time(written) if written else None
