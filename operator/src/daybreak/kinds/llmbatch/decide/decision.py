"""What to do about a batch and what to say of it: a pure function of what is seen."""

from dataclasses import dataclass
from typing import assert_never

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, text
from daybreak.api.llmbatch.status import BatchPhase, BatchReason
from daybreak.kinds.llmbatch.objects.ray_job import job_digest
from daybreak.kinds.llmbatch.observe.observed import JobView, Observed
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import pod_views

_MESSAGE_LIMIT = 2000
_NAMED = 3
"""Most workloads that a message names."""


@dataclass(frozen=True)
class Verdict:
    """How a batch is."""

    phase: BatchPhase
    reason: BatchReason
    message: str
    stalled: bool = False
    """Whether somebody has to act."""

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in (BatchPhase.SUCCEEDED, BatchPhase.FAILED)


@dataclass(frozen=True)
class Decision:
    """What follows from what is seen."""

    apply: bool
    """Whether objects are made what they should be; False: they are left as they are."""
    running: bool
    """Whether there is to be a job."""
    verdict: Verdict | None
    """How the batch is; None: its end stands in the status, which stays."""
    job: str
    """Digest of what it began with; empty: it has not begun."""
    after: tuple[str, ...] = ()
    """Workloads that come before it, for which it gives its accelerators back."""


def decide(seen: Observed) -> Decision:
    """Decide."""
    begun = _begun_with(seen)
    deleting = bool(at(seen.manifest, "metadata").get("deletionTimestamp"))
    if seen.finished:
        return Decision(apply=False, running=False, verdict=None, job=begun)
    if seen.batch is None or seen.problems:
        message = "; ".join(seen.problems)
        verdict = Verdict(_phase_before(seen), BatchReason.INVALID_SPEC, message, stalled=True)
        return Decision(apply=False, running=False, verdict=verdict, job=begun)
    suspended = seen.batch.spec.suspend
    turn = seen.turn
    after = turn.after or ((turn.gives_way_to,) if turn.gives_way_to else ())
    changed = bool(begun) and begun != job_digest(seen.batch)
    verdict = _verdict(seen, suspended=suspended, after=after)
    if changed and not verdict.final:
        message = (
            "the spec was changed after the batch had begun, and it goes on as it began: put the spec back, "
            "or make a new LLMBatch with another output"
        )
        verdict = Verdict(verdict.phase, BatchReason.SPEC_CHANGED, message, stalled=True)
    apply = not deleting and not verdict.final and not (changed and not suspended)
    digest = begun or ("" if suspended or after else job_digest(seen.batch))
    running = not suspended and not after
    return Decision(apply, running, verdict, digest, () if verdict.final or suspended else after)


def _begun_with(seen: Observed) -> str:
    """Digest of what the batch began with: in the status, or on the job that the status does not know yet."""
    if found := text(seen.status.get("job")):
        return found
    return (
        text(at(seen.ray_job, "metadata", "annotations").get(names.BATCH_ANNOTATION)) if seen.ray_job else ""
    )


def _phase_before(seen: Observed) -> BatchPhase:
    before = text(seen.status.get("phase"))
    return BatchPhase(before) if before in list(BatchPhase) else BatchPhase.PENDING


def _verdict(seen: Observed, *, suspended: bool, after: tuple[str, ...]) -> Verdict:
    said, job = seen.progress, seen.job
    if said is not None and said.final:
        if said.state == "Succeeded":
            failed = f", {said.failed} of them with an error" if said.failed else ""
            message = f"all {said.total} rows are in the output{failed}"
            return Verdict(BatchPhase.SUCCEEDED, BatchReason.FINISHED, message)
        known = said.reason in list(BatchReason)
        reason = BatchReason(said.reason) if known else BatchReason.JOB_FAILED
        return Verdict(BatchPhase.FAILED, reason, said.message or "the job gives no reason", stalled=True)
    if job is not None and not job.leaving and (ended := _ended(job)) is not None:
        return ended
    if suspended:
        message = "spec.suspend is true: nothing runs, and what is answered is kept"
        return Verdict(BatchPhase.SUSPENDED, BatchReason.SUSPENDED, message)
    if not seen.kuberay_installed:
        message = "the API server knows no RayJob: install KubeRay"
        return Verdict(BatchPhase.PENDING, BatchReason.KUBERAY_MISSING, message, stalled=True)
    if seen.foreign:
        message = f"{', '.join(seen.foreign)} belongs to somebody else: remove it, or rename the batch"
        return Verdict(BatchPhase.PENDING, BatchReason.NAME_TAKEN, message, stalled=True)
    if seen.refusal:
        return Verdict(_phase_before(seen), BatchReason.REFUSED, seen.refusal, stalled=True)
    if after:
        message = (
            f"{', '.join(after[:_NAMED])} waits for the same accelerators and comes before it: what is "
            "answered is kept, and it goes on by itself"
        )
        return Verdict(BatchPhase.PENDING, BatchReason.WAITING_FOR_ACCELERATORS, message)
    return _under_way(seen, job)


def _under_way(seen: Observed, job: JobView | None) -> Verdict:
    said = seen.progress
    if job is None or job.leaving:
        return Verdict(BatchPhase.PENDING, BatchReason.PROGRESSING, "its RayJob is being made")
    if job.suspended:
        return Verdict(BatchPhase.PENDING, BatchReason.QUEUED, "waits until Kueue admits it")
    pods = [pod for pod in pod_views(seen.pods) if pod.counts]
    for pod in pods:
        problem = pod_problem(pod)
        if problem is not None:
            return Verdict(
                BatchPhase.STARTING, BatchReason.POD_FAILED, problem.message, stalled=problem.stalled
            )
    if said is not None and said.state == "Running":
        message = f"{said.done} of {said.total} rows are in the output"
        return Verdict(BatchPhase.RUNNING, BatchReason.RUNNING, message)
    waited = {
        "Reading": "the input is being read",
        "Starting": "the engines are starting",
    }.get(said.state if said is not None else "", "")
    if not waited:
        waited = "the job is being submitted" if job.deployment == "Running" else "the Ray pods are starting"
        if job.deployment == "Retrying":
            waited = "the job has failed and is begun anew"
    phase = BatchPhase.STARTING if pods or job.deployment else BatchPhase.PENDING
    return Verdict(phase, BatchReason.PROGRESSING, waited)


def _ended(job: JobView) -> Verdict | None:
    """The end of a job that KubeRay tells; its own last word was not heard."""
    match job.deployment:
        case "Complete" if job.job == "SUCCEEDED":
            return Verdict(BatchPhase.SUCCEEDED, BatchReason.FINISHED, "every row is in the output")
        case "Complete":
            return Verdict(
                BatchPhase.FAILED, BatchReason.JOB_FAILED, f"the job was ended ({job.job})", stalled=True
            )
        case "Failed" | "ValidationFailed":
            late = job.reason in ("DeadlineExceeded", "PreRunningDeadlineExceeded")
            reason = BatchReason.DEADLINE_EXCEEDED if late else BatchReason.JOB_FAILED
            message = excerpt(job.message)[-_MESSAGE_LIMIT:] or job.reason or "KubeRay gives no reason"
            return Verdict(BatchPhase.FAILED, reason, message, stalled=True)
        case str():
            return None
    assert_never(job.deployment)
