"""Checks of an object that creates one job: the common part of all kinds.

Each check returns a verdict, or None if it does not apply. A kind runs them in order together with its own
checks; the first verdict counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from daybreak.api.common.conditions import Reason
from daybreak.api.jobs.words import JobPhase, JobReason
from daybreak.jobs.observed import JobWords, ObservedT, Referred
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import PodFields, fix, rejects, with_fix
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import pod_views

_LISTED = 8
"""Maximum number of names in a message."""


@dataclass(frozen=True)
class Verdict:
    """State of an object."""

    phase: JobPhase
    reason: StrEnum
    message: str
    stalled: bool = False
    """True if a user or an administrator must act."""
    waiting: bool = False
    """True if the object waits for a time, with nothing in progress."""

    @property
    def final(self) -> bool:
        """True if the state is final."""
        return self.phase in (JobPhase.SUCCEEDED, JobPhase.FAILED)


def failed(report: JobWords, reasons: type[StrEnum]) -> Verdict:
    """Return the verdict on a failed job. A reason that the kind does not know becomes `JobFailed`."""
    reason = reasons(report.reason) if report.reason in list(reasons) else JobReason.JOB_FAILED
    return Verdict(JobPhase.FAILED, reason, report.message or "the job reported no reason", stalled=True)


def suspended(*, desired: bool, meaning: str) -> Verdict | None:
    """Return the verdict on a suspended object, or None. `meaning` is the effect, for the message."""
    if not desired:
        return None
    message = f"spec.suspend is true: nothing runs, and {meaning}"
    return Verdict(JobPhase.SUSPENDED, JobReason.SUSPENDED, message)


def not_applied(observed: ObservedT, noun: str) -> Verdict | None:
    """Return the verdict if the objects cannot be created, or None.

    A name belongs to another owner, or the API server rejects an object.
    """
    if observed.foreign:
        names = ", ".join(observed.foreign)
        message = f"{names} exists and is not managed by Daybreak: delete it, or rename the {noun}"
        return Verdict(JobPhase.PENDING, JobReason.NAME_CONFLICT, message, stalled=True)
    if observed.refusal:
        return Verdict(observed.phase_before, JobReason.OBJECT_REJECTED, observed.refusal, stalled=True)
    return None


def being_made(observed: ObservedT, kind: str) -> Verdict | None:
    """Return the verdict if the job does not exist yet or is being deleted before its successor, or None."""
    if observed.job is not None and not observed.job_leaving:
        return None
    return Verdict(JobPhase.PENDING, JobReason.PROGRESSING, f"its {kind} is being made")


def pod_failed(observed: ObservedT) -> Verdict | None:
    """Return the verdict on the first pod that cannot start, or None."""
    for pod in pod_views(observed.pods):
        problem = pod_problem(pod) if pod.counts else None
        if problem is not None:
            # An unscheduled pod has not failed: another pod may end, or a node may be added.
            waits = problem.reason is Reason.UNSCHEDULABLE and not problem.stalled
            reason = JobReason.PROGRESSING if waits else JobReason.POD_FAILED
            return Verdict(JobPhase.STARTING, reason, problem.message, stalled=problem.stalled)
    return None


def pod_rejected(observed: ObservedT, containers: Mapping[str, PodFields]) -> Verdict | None:
    """Return the verdict on a job whose pod the API server rejects, with the field to set.

    Args:
        observed: The observation.
        containers: Fields of the pod's containers, by name.
    """
    if not observed.rejection:
        return None
    message = with_fix(
        f"no pod can be created: {excerpt(observed.rejection)}", fix(observed.rejection, containers)
    )
    return Verdict(JobPhase.STARTING, JobReason.POD_FAILED, message, stalled=rejects(observed.rejection))


def missing_target(referred: Referred) -> str:
    """Return why a reference has no target, with possible names. Empty if it has one."""
    if referred.manifest is not None:
        return ""
    return f"there is no {referred.words} in this namespace; {choice(referred.name, referred.others)}"


def choice(desired: str, there: Collection[str]) -> str:
    """Return possible names, as a message: the most similar one, and the existing ones."""
    names = sorted(there)
    if not names:
        return "available: none"
    near = get_close_matches(desired, names, n=1)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{f'did you mean {near[0]}? ' if near else ''}available: {', '.join(names[:_LISTED])}{more}"
