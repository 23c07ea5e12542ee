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


def decide(observed: Observed) -> Decision:
    """Return the decision for an observed batch."""
    begun = observed.begun_with(names.BATCH_ANNOTATION)
    settled = Decision.settled(observed, begun)
    if settled is not None or observed.subject is None:
        return settled or Decision(apply=False, running=False, verdict=None, job=begun)
    suspended, turn = observed.subject.spec.suspend, observed.turn
    after = turn.after or ((turn.gives_way_to,) if turn.gives_way_to else ())
    missing = without_service(observed)
    found = Decision.going_on(
        observed,
        _verdict(observed, suspended=suspended, after=after, missing=missing),
        begun=begun,
        digest=job_digest(observed.subject),
        suspended=suspended,
        waits=bool(after) or (missing is not None and not stays(observed)),
        noun="batch",
        restart="create a new LLMBatch with another output",
    )
    final = found.verdict is not None and found.verdict.final
    return replace(found, after=() if final or suspended else after)


def _verdict(
    observed: Observed, *, suspended: bool, after: tuple[str, ...], missing: Verdict | None
) -> Verdict:
    return (
        _last_word(observed.progress)
        or _ended(observed)
        or verdict.suspended(desired=suspended, meaning="what is answered is kept")
        or _without_kuberay(observed)
        or missing
        or verdict.not_applied(observed, "batch")
        or _waits(observed, after)
        or verdict.being_made(observed, "RayJob")
        or _queued(observed)
        or verdict.pod_failed(observed)
        or _rejected(observed)
        or _under_way(observed)
    )


def _last_word(report: Progress | None) -> Verdict | None:
    if report is None or not report.final:
        return None
    if report.state != "Succeeded":
        return verdict.failed(report, BatchReason)
    if (none := _all_failed(report.total, report.failed, report.errors)) is not None:
        return none
    failed = f", {report.failed} of them with an error" if report.failed else ""
    message = f"all {report.total} rows are in the output{failed}"
    return Verdict(JobPhase.SUCCEEDED, BatchReason.FINISHED, message)


def _all_failed(total: int, failed: int, errors: Sequence[str]) -> Verdict | None:
    """Return the verdict on a batch whose rows all failed, or None if any was answered or none exists."""
    if not total or failed < total:
        return None
    message = f"All {total} rows failed" + (f"; first error: {errors[0]}" if errors else "")
    return Verdict(JobPhase.FAILED, BatchReason.TOO_MANY_ERRORS, message, stalled=True)


def _without_kuberay(observed: Observed) -> Verdict | None:
    if observed.kuberay_installed:
        return None
    message = "the API server knows no RayJob: install KubeRay"
    return Verdict(JobPhase.PENDING, BatchReason.KUBERAY_NOT_INSTALLED, message, stalled=True)


def _waits(observed: Observed, after: tuple[str, ...]) -> Verdict | None:
    if not after:
        return None
    desired = "CPUs and memory" if observed.turn.cores else "accelerators"
    message = (
        f"{', '.join(after[:_NAMED])} is ahead in the queue for the same {desired}. Answers "
        "so far are kept, and the batch resumes automatically"
    )
    return Verdict(JobPhase.PENDING, BatchReason.WAITING_FOR_ACCELERATORS, message)


def _rejected(observed: Observed) -> Verdict | None:
    """Return the verdict on a batch whose Ray pods the API server rejects, or None without a rejection."""
    job = observed.ray_job
    problem = None if job is None else pods_rejected(observed.ray_clusters, job.cluster, OF_MODEL)
    if problem is None:
        return None
    return Verdict(JobPhase.STARTING, JobReason.POD_FAILED, problem.message, stalled=problem.stalled)


def _queued(observed: Observed) -> Verdict | None:
    if observed.ray_job is None or not observed.ray_job.suspended:
        return None
    return Verdict(JobPhase.PENDING, BatchReason.QUEUED, "waits until Kueue admits it")


def _under_way(observed: Observed) -> Verdict:
    report, deployment = (
        observed.progress,
        observed.ray_job.deployment if observed.ray_job is not None else "",
    )
    if report is not None and report.state == "Running":
        message = f"{report.done} of {report.total} rows are in the output"
        return Verdict(JobPhase.RUNNING, BatchReason.RUNNING, message)
    waited = {
        "Reading": "the input is being read",
        "Starting": "the engines are starting",
    }.get(report.state if report is not None else "", "")
    if not waited:
        waited = "the job is being submitted" if deployment == "Running" else "the Ray pods are starting"
        if deployment == "Retrying":
            waited = "the job has failed and is restarted"
    pods = any(pod.counts for pod in pod_views(observed.pods))
    phase = JobPhase.STARTING if pods or deployment else JobPhase.PENDING
    return Verdict(phase, BatchReason.PROGRESSING, waited)


def _ended(observed: Observed) -> Verdict | None:
    """Return the verdict on a job whose end KubeRay reports, without a final report of the job itself."""
    job = observed.ray_job
    if job is None or observed.job_leaving:
        return None
    match job.deployment:
        case "Complete" if job.job == "SUCCEEDED":
            found = Verdict(JobPhase.SUCCEEDED, BatchReason.FINISHED, "every row is in the output")
            return _all_failed(*observed.last_counts) or found
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
