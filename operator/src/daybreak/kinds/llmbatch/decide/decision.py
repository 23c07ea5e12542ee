"""Action and verdict for a batch: a pure function of its observation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from daybreak.api.common import names
from daybreak.api.jobs.words import JobPhase, JobReason
from daybreak.api.llmbatch.status import BatchReason
from daybreak.jobs import decision, verdict
from daybreak.jobs.verdict import Verdict
from daybreak.kinds.llmbatch.decide.service import stays, without_service
from daybreak.kinds.llmbatch.objects.ray_job import job_digest
from daybreak.kinds.llmbatch.observe.job_message import drop_workers, read_own_error
from daybreak.kinds.llmbatch.observe.observed import JobView, Observed, Progress
from daybreak.problems.pod_refusals import OF_MODEL
from daybreak.problems.redact import excerpt
from daybreak.problems.serve_problems import pods_rejected
from daybreak.ray.views.ray_pods import pod_views

_NAMED = 3
"""Maximum number of workloads that a message names."""


@dataclass(frozen=True)
class Decision(decision.Decision):
    """Decision on a batch, from its observation."""

    after: tuple[str, ...] = ()
    """Workloads ahead of the batch in the queue, for which the batch releases its accelerators."""


def decide(seen: Observed) -> Decision:
    """Return the decision for an observed batch."""
    begun = seen.begun_with(names.BATCH_ANNOTATION)
    settled = Decision.settled(seen, begun)
    if settled is not None or seen.subject is None:
        return settled or Decision(apply=False, running=False, verdict=None, job=begun)
    suspended, turn = seen.subject.spec.suspend, seen.turn
    after = turn.after or ((turn.gives_way_to,) if turn.gives_way_to else ())
    missing = without_service(seen)
    found = Decision.going_on(
        seen,
        _verdict(seen, suspended=suspended, after=after, missing=missing),
        begun=begun,
        digest=job_digest(seen.subject),
        suspended=suspended,
        waits=bool(after) or (missing is not None and not stays(seen)),
        noun="batch",
        anew="create a new LLMBatch with another output",
    )
    final = found.verdict is not None and found.verdict.final
    return replace(found, after=() if final or suspended else after)


def _verdict(seen: Observed, *, suspended: bool, after: tuple[str, ...], missing: Verdict | None) -> Verdict:
    return (
        _last_word(seen.progress)
        or _ended(seen)
        or verdict.suspended(wanted=suspended, meaning="what is answered is kept")
        or _without_kuberay(seen)
        or missing
        or verdict.not_applied(seen, "batch")
        or _waits(seen, after)
        or verdict.being_made(seen, "RayJob")
        or _queued(seen)
        or verdict.pod_failed(seen)
        or _rejected(seen)
        or _under_way(seen)
    )


def _last_word(said: Progress | None) -> Verdict | None:
    if said is None or not said.final:
        return None
    if said.state != "Succeeded":
        return verdict.failed(said, BatchReason)
    if (none := _all_failed(said.total, said.failed, said.errors)) is not None:
        return none
    failed = f", {said.failed} of them with an error" if said.failed else ""
    message = f"all {said.total} rows are in the output{failed}"
    return Verdict(JobPhase.SUCCEEDED, BatchReason.FINISHED, message)


def _all_failed(total: int, failed: int, errors: Sequence[str]) -> Verdict | None:
    """Return the verdict on a batch whose rows all failed, or None if any was answered or none exists."""
    if not total or failed < total:
        return None
    message = f"All {total} rows failed" + (f"; first error: {errors[0]}" if errors else "")
    return Verdict(JobPhase.FAILED, BatchReason.TOO_MANY_ERRORS, message, stalled=True)


def _without_kuberay(seen: Observed) -> Verdict | None:
    if seen.kuberay_installed:
        return None
    message = "the API server knows no RayJob: install KubeRay"
    return Verdict(JobPhase.PENDING, BatchReason.KUBERAY_NOT_INSTALLED, message, stalled=True)


def _waits(seen: Observed, after: tuple[str, ...]) -> Verdict | None:
    if not after:
        return None
    wanted = "CPUs and memory" if seen.turn.cores else "accelerators"
    message = (
        f"{', '.join(after[:_NAMED])} is ahead in the queue for the same {wanted}. Answers "
        "so far are kept, and the batch resumes automatically"
    )
    return Verdict(JobPhase.PENDING, BatchReason.WAITING_FOR_ACCELERATORS, message)


def _rejected(seen: Observed) -> Verdict | None:
    """Return the verdict on a batch whose Ray pods the API server rejects, or None without a rejection."""
    job = seen.ray_job
    problem = None if job is None else pods_rejected(seen.ray_clusters, job.cluster, OF_MODEL)
    if problem is None:
        return None
    return Verdict(JobPhase.STARTING, JobReason.POD_FAILED, problem.message, stalled=problem.stalled)


def _queued(seen: Observed) -> Verdict | None:
    if seen.ray_job is None or not seen.ray_job.suspended:
        return None
    return Verdict(JobPhase.PENDING, BatchReason.QUEUED, "waits until Kueue admits it")


def _under_way(seen: Observed) -> Verdict:
    said, deployment = seen.progress, seen.ray_job.deployment if seen.ray_job is not None else ""
    if said is not None and said.state == "Running":
        message = f"{said.done} of {said.total} rows are in the output"
        return Verdict(JobPhase.RUNNING, BatchReason.RUNNING, message)
    waited = {
        "Reading": "the input is being read",
        "Starting": "the engines are starting",
    }.get(said.state if said is not None else "", "")
    if not waited:
        waited = "the job is being submitted" if deployment == "Running" else "the Ray pods are starting"
        if deployment == "Retrying":
            waited = "the job has failed and is restarted"
    pods = any(pod.counts for pod in pod_views(seen.pods))
    phase = JobPhase.STARTING if pods or deployment else JobPhase.PENDING
    return Verdict(phase, BatchReason.PROGRESSING, waited)


def _ended(seen: Observed) -> Verdict | None:
    """Return the verdict on a job whose end KubeRay reports, without a final report of the job itself."""
    job = seen.ray_job
    if job is None or seen.job_leaving:
        return None
    match job.deployment:
        case "Complete" if job.job == "SUCCEEDED":
            found = Verdict(JobPhase.SUCCEEDED, BatchReason.FINISHED, "every row is in the output")
            return _all_failed(*seen.last_counts) or found
        case "Complete":
            return Verdict(
                JobPhase.FAILED, BatchReason.JOB_FAILED, f"the job was ended ({job.job})", stalled=True
            )
        case "Failed" | "ValidationFailed":
            late = job.reason in ("DeadlineExceeded", "PreRunningDeadlineExceeded")
            if late:
                return Verdict(JobPhase.FAILED, BatchReason.DEADLINE_EXCEEDED, _why(job), stalled=True)
            own = read_own_error(job.message)
            if own is not None:
                return verdict.failed(replace(own, message=excerpt(own.message)), BatchReason)
            return Verdict(JobPhase.FAILED, BatchReason.JOB_FAILED, _why(job), stalled=True)
        case str():
            return None
    assert_never(job.deployment)


def _why(job: JobView) -> str:
    return excerpt(drop_workers(job.message)) or job.reason or "KubeRay gives no reason"
