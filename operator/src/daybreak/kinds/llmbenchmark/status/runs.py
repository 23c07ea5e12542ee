"""Status of a schedule: the next start and the results of previous runs."""

from daybreak.api.common.unstructured import written
from daybreak.api.llmbenchmark.status import RUN_LIMIT, BenchmarkPhase, LLMBenchmarkStatus, RunStatus
from daybreak.jobs.verdict import Verdict
from daybreak.kinds.llmbenchmark.decide.schedule import Turn, words
from daybreak.kinds.llmbenchmark.observe.observed import Observed

_OF_A_RUN = (
    "progress",
    "recommendation",
    "recommended",
    "best",
    "baseline",
    "gain",
    "noise",
    "stop_reason",
    "engine_starts",
    "steps",
    "start_time",
    "completion_time",
    "accelerators",
    "accelerator_seconds",
    "accelerator_seconds_time",
    "job_hash",
    "engine_hash",
)
"""Fields of a single run. When the next run begins, they are reset to those of a new benchmark."""
_MESSAGE_LIMIT = 500


def scheduled(observed: Observed, turn: Turn | None) -> dict[str, object]:
    """Return the fields of the schedule, and the fields that a new run resets."""
    schedule = observed.subject.spec.schedule if observed.subject is not None else None
    found: dict[str, object] = {}
    if turn is not None and turn.begins:
        fresh = LLMBenchmarkStatus()
        found = {name: getattr(fresh, name) for name in _OF_A_RUN}
    elif observed.problems:
        return {}
    run, following = (turn.run, turn.next) if turn is not None else (None, None)
    return found | {
        "last_schedule_time": written(run) if run is not None else None,
        "next_schedule_time": written(following) if following is not None else None,
        "schedule": words(schedule) if schedule is not None else None,
    }


def remembered(before: LLMBenchmarkStatus, after: LLMBenchmarkStatus, verdict: Verdict) -> list[RunStatus]:
    """Return the runs in the status, with the run that has just ended first."""
    ended = RunStatus(
        schedule_time=after.last_schedule_time,
        start_time=after.start_time,
        completion_time=after.completion_time,
        phase=BenchmarkPhase(verdict.phase),
        reason=verdict.reason.value,
        message=verdict.message[:_MESSAGE_LIMIT] or None,
        best=after.best,
        gain=after.gain,
        accelerator_seconds=after.accelerator_seconds,
    )
    return [ended, *before.runs][:RUN_LIMIT]
