"""Action and verdict for a benchmark: a pure function of its observation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from daybreak.api.common import names
from daybreak.api.common.unstructured import condition, mapping, text, written
from daybreak.api.jobs.words import JobPhase, JobReason
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.spec import Where
from daybreak.api.llmbenchmark.status import BenchmarkReason, LLMBenchmarkStatus
from daybreak.api.schema.custom_object import known_status
from daybreak.jobs import decision, verdict
from daybreak.jobs.verdict import Verdict, missing_target
from daybreak.kinds.llmbenchmark.decide.schedule import Turn, turn
from daybreak.kinds.llmbenchmark.decide.steps import words
from daybreak.kinds.llmbenchmark.objects.job import job_digest
from daybreak.kinds.llmbenchmark.objects.target import Target, TargetMissing, target
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.problems.pod_refusals import HEAD, OF_MODEL, OF_MODELS, PodFields


@dataclass(frozen=True)
class Decision(decision.Decision):
    """Decision on a benchmark, from its observation."""

    target: Target | None = None
    """Measurement target. None if the benchmark must have no Job."""
    turn: Turn | None = None
    """Position in the schedule. None if the benchmark has no schedule."""


def decide(observed: Observed) -> Decision:
    """Return the decision for an observed benchmark."""
    when = turn(observed)
    between = _between_runs(observed, when)
    return between or replace(_run(observed, when), turn=when)


def _between_runs(observed: Observed, when: Turn | None) -> Decision | None:
    """Return the decision between scheduled runs, or None during a run or without a schedule."""
    scheduled = observed.subject is not None and observed.subject.spec.schedule is not None
    begun, may = text(observed.status.get("jobHash")), not observed.deleting
    if when is None:
        if not (scheduled and observed.finished):
            return None
        # The status records the end of the last run, and must also report the problems of the next run.
        message = "; ".join(observed.problems)
        wrong = Verdict(observed.phase_before, BenchmarkReason.INVALID_SPEC, message, stalled=True)
        return Decision(apply=False, running=False, verdict=wrong, job=begun)
    if when.begins:
        message = "a run of the schedule begins"
        begins = Verdict(JobPhase.PENDING, BenchmarkReason.PROGRESSING, message)
        return Decision(apply=False, running=False, verdict=begins, job="", turn=when)
    if observed.finished:
        clears = when.clears and may
        return Decision(apply=clears, running=False, verdict=_mended(observed), job=begun, turn=when)
    if when.run is not None or begun or (observed.subject is not None and observed.subject.spec.suspend):
        return None
    message = f"the next run begins at {written(when.next)}" if when.next is not None else "no run comes"
    waits = Verdict(JobPhase.PENDING, BenchmarkReason.SCHEDULED, message, waiting=True)
    report = verdict.not_applied(observed, "benchmark") or waits
    return Decision(apply=may, running=False, verdict=report, job="", turn=when)


def _mended(observed: Observed) -> Verdict | None:
    """Return the verdict of the last run if the status reports an invalid spec instead, or None otherwise."""
    runs = known_status(LLMBenchmarkStatus, observed.status).runs
    if not runs or condition(observed.status, "Stalled").get("reason") != BenchmarkReason.INVALID_SPEC:
        return None
    last = runs[0]
    phase = JobPhase(last.phase)
    reason = BenchmarkReason(last.reason) if last.reason in list(BenchmarkReason) else JobReason.JOB_FAILED
    return Verdict(phase, reason, last.message or "", stalled=phase is JobPhase.FAILED)


def _run(observed: Observed, when: Turn | None) -> Decision:
    begun = observed.begun_with(names.BENCHMARK_ANNOTATION)
    settled = Decision.settled(observed, begun)
    if settled is not None or observed.subject is None:
        return settled or Decision(apply=False, running=False, verdict=None, job=begun)
    suspended = observed.subject.spec.suspend
    desired, missing = (None, "") if suspended else _target(observed.subject, observed)
    meaning = "the benchmark restarts when it is false" if when is None else "no run starts until it is false"
    found = Decision.going_on(
        observed,
        _verdict(observed, suspended=meaning if suspended else "", missing=missing),
        begun=begun,
        digest=job_digest(observed.subject),
        suspended=suspended,
        waits=bool(missing),
        noun="benchmark",
        restart="create a new LLMBenchmark" if when is None else "wait for the next run",
    )
    if suspended and when is not None:
        # The suspension abandons the current run; the next run begins with the spec of that time.
        found = replace(found, job="")
    # While a Job runs, the service that it copied may be deleted: the copy stays.
    return replace(found, apply=found.apply and not missing, target=desired)


def _target(benchmark: LLMBenchmark, observed: Observed) -> tuple[Target | None, str]:
    """Return the measurement target, or None and the reason why it cannot be measured."""
    try:
        why = missing_target(observed.referred) if observed.referred is not None else ""
        return target(benchmark, observed.service, why), ""
    except TargetMissing as error:
        return None, str(error)


def _verdict(observed: Observed, *, suspended: str, missing: str) -> Verdict:
    return (
        _last_word(observed.progress)
        or _ended(observed)
        or verdict.suspended(desired=bool(suspended), meaning=suspended)
        or _without_service(observed, missing)
        or verdict.not_applied(observed, "benchmark")
        or verdict.being_made(observed, "Job")
        or verdict.pod_rejected(observed, _fields(observed))
        or verdict.pod_failed(observed)
        or _under_way(observed.progress)
    )


def _fields(observed: Observed) -> Mapping[str, PodFields]:
    """Return the fields that shape the Job's pod, by container."""
    spec = observed.subject.spec if observed.subject is not None else None
    reference = spec.service_ref if spec is not None else None
    if reference is None:
        fields = OF_MODEL
    elif reference.mode is Where.SERVICE:
        fields = HEAD
    else:
        fields = replace(OF_MODELS, owner=f"LLMService {reference.name}")
    return {"ray-worker": fields}


def _last_word(report: Progress | None) -> Verdict | None:
    if report is None or not report.final:
        return None
    if report.state != "Succeeded":
        return verdict.failed(report, BenchmarkReason)
    if report.best is None:
        message = f"no step keeps the limits of the objective. {report.stopped}"
    else:
        found = f"{report.best.get('requests_per_second')} requests/s"
        message = f"best: {words(mapping(report.best.get('settings')))}, {found}. {report.stopped}"
    return Verdict(JobPhase.SUCCEEDED, BenchmarkReason.FINISHED, message)


def _ended(observed: Observed) -> Verdict | None:
    """Return the verdict on a Job that ended without a final report, or None if it has not ended.

    Only the steps of its last report are known.
    """
    ended = None if observed.job_leaving else observed.job_ended
    if ended is None:
        return None
    succeeded, why = ended
    message = why or "the job ended before its final report arrived; the steps are from an earlier report"
    if succeeded:
        return Verdict(JobPhase.SUCCEEDED, BenchmarkReason.FINISHED, message)
    return Verdict(JobPhase.FAILED, BenchmarkReason.JOB_FAILED, message, stalled=True)


def _without_service(observed: Observed, missing: str) -> Verdict | None:
    if not missing or observed.job is not None:
        return None
    return Verdict(JobPhase.PENDING, BenchmarkReason.SERVICE_NOT_FOUND, missing, stalled=True)


def _under_way(report: Progress | None) -> Verdict:
    if report is not None:
        return Verdict(JobPhase.RUNNING, BenchmarkReason.RUNNING, report.now or "it begins")
    return Verdict(JobPhase.STARTING, BenchmarkReason.PROGRESSING, "its pod is starting")
