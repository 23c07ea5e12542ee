"""What to do about a benchmark and what to say of it: a pure function of what is seen."""

from dataclasses import dataclass

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, text
from daybreak.api.llmbenchmark.status import BenchmarkPhase, BenchmarkReason
from daybreak.kinds.llmbenchmark.objects.job import job_digest
from daybreak.kinds.llmbenchmark.objects.target import Target, TargetMissing, target
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.status.steps import words
from daybreak.problems.pod_problems import pod_problem
from daybreak.ray.views.ray_pods import pod_views


@dataclass(frozen=True)
class Verdict:
    """How a benchmark is."""

    phase: BenchmarkPhase
    reason: BenchmarkReason
    message: str
    stalled: bool = False
    """Whether somebody has to act."""

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in (BenchmarkPhase.SUCCEEDED, BenchmarkPhase.FAILED)


@dataclass(frozen=True)
class Decision:
    """What follows from what is seen."""

    apply: bool
    """Whether objects are made what they should be; False: they are left as they are."""
    target: Target | None
    """What is measured; None: there is to be no Job."""
    verdict: Verdict | None
    """How the benchmark is; None: its end stands in the status, which stays."""
    job: str
    """Digest of what it began with; empty: it has not begun."""


def decide(seen: Observed) -> Decision:
    """Decide."""
    begun = _begun_with(seen)
    if seen.finished:
        return Decision(apply=False, target=None, verdict=None, job=begun)
    if seen.benchmark is None or seen.problems:
        message = "; ".join(seen.problems)
        verdict = Verdict(_phase_before(seen), BenchmarkReason.INVALID_SPEC, message, stalled=True)
        return Decision(apply=False, target=None, verdict=verdict, job=begun)
    suspended = seen.benchmark.spec.suspend
    changed = bool(begun) and begun != job_digest(seen.benchmark)
    wanted: Target | None = None
    missing = ""
    if not suspended:
        try:
            wanted = target(seen.benchmark, seen.service)
        except TargetMissing as error:
            missing = str(error)
    verdict = _verdict(seen, suspended=suspended, missing=missing)
    if changed and not verdict.final:
        message = (
            "the spec was changed after the benchmark had begun, and it goes on as it began: put the spec "
            "back, or make a new LLMBenchmark"
        )
        verdict = Verdict(verdict.phase, BenchmarkReason.SPEC_CHANGED, message, stalled=True)
    deleting = bool(at(seen.manifest, "metadata").get("deletionTimestamp"))
    # Where a Job runs, the service it was copied from may go: the copy stays.
    apply = not deleting and not verdict.final and not missing and not (changed and not suspended)
    job = begun or ("" if suspended or missing else job_digest(seen.benchmark))
    return Decision(apply=apply, target=wanted, verdict=verdict, job=job)


def _begun_with(seen: Observed) -> str:
    """Digest of what it began with: in the status, or on the Job that the status does not know yet."""
    if found := text(seen.status.get("job")):
        return found
    return text(at(seen.job, "metadata", "annotations").get(names.BENCHMARK_ANNOTATION)) if seen.job else ""


def _phase_before(seen: Observed) -> BenchmarkPhase:
    before = text(seen.status.get("phase"))
    return BenchmarkPhase(before) if before in list(BenchmarkPhase) else BenchmarkPhase.PENDING


def _verdict(seen: Observed, *, suspended: bool, missing: str) -> Verdict:
    said = seen.progress
    if said is not None and said.final:
        return _last_word(said)
    leaving = bool(at(seen.job, "metadata").get("deletionTimestamp")) if seen.job else False
    if seen.job is not None and not leaving and (ended := seen.job_ended) is not None:
        # It has ended unheard: the steps that were told last are all that is known.
        succeeded, why = ended
        message = why or "the job ended before its last word was heard; the steps are those it told before"
        phase = BenchmarkPhase.SUCCEEDED if succeeded else BenchmarkPhase.FAILED
        reason = BenchmarkReason.FINISHED if succeeded else BenchmarkReason.JOB_FAILED
        return Verdict(phase, reason, message, stalled=not succeeded)
    if suspended:
        message = "spec.suspend is true: nothing runs, and it begins anew when that is false"
        return Verdict(BenchmarkPhase.SUSPENDED, BenchmarkReason.SUSPENDED, message)
    if missing and seen.job is None:
        return Verdict(BenchmarkPhase.PENDING, BenchmarkReason.SERVICE_MISSING, missing, stalled=True)
    if seen.foreign:
        message = f"{', '.join(seen.foreign)} belongs to somebody else: remove it, or rename the benchmark"
        return Verdict(BenchmarkPhase.PENDING, BenchmarkReason.NAME_TAKEN, message, stalled=True)
    if seen.refusal:
        return Verdict(_phase_before(seen), BenchmarkReason.REFUSED, seen.refusal, stalled=True)
    return _under_way(seen, leaving=leaving)


def _last_word(said: Progress) -> Verdict:
    if said.state != "Succeeded":
        known = said.reason in list(BenchmarkReason)
        reason = BenchmarkReason(said.reason) if known else BenchmarkReason.JOB_FAILED
        message = said.message or "the job gives no reason"
        return Verdict(BenchmarkPhase.FAILED, reason, message, stalled=True)
    if said.best is None:
        message = f"no step keeps the limits of the objective. {said.stopped}"
    else:
        found = f"{said.best.get('requests_per_second')} requests/s"
        message = f"best: {words(mapping(said.best.get('settings')))}, {found}. {said.stopped}"
    return Verdict(BenchmarkPhase.SUCCEEDED, BenchmarkReason.FINISHED, message)


def _under_way(seen: Observed, *, leaving: bool) -> Verdict:
    if seen.job is None or leaving:
        return Verdict(BenchmarkPhase.PENDING, BenchmarkReason.PROGRESSING, "its Job is being made")
    pods = [pod for pod in pod_views(seen.pods) if pod.counts]
    for pod in pods:
        problem = pod_problem(pod)
        if problem is not None:
            return Verdict(
                BenchmarkPhase.STARTING, BenchmarkReason.POD_FAILED, problem.message, stalled=problem.stalled
            )
    if seen.progress is not None:
        message = seen.progress.now or "it begins"
        return Verdict(BenchmarkPhase.RUNNING, BenchmarkReason.RUNNING, message)
    return Verdict(BenchmarkPhase.STARTING, BenchmarkReason.PROGRESSING, "its pod is starting")
