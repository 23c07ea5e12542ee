"""How an object that becomes one job is: the checks that are the same for every kind.

Each gives a verdict, or None where it has nothing to say. A kind puts them in a row with its own; the first
verdict counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from daybreak.api.common.conditions import Reason
from daybreak.api.jobs.words import JobPhase, JobReason
from daybreak.jobs.observed import JobWords, Referred, Seen
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import PodFields, fix, rejects, with_fix
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import pod_views

_LISTED = 8
"""Most names that a message lists."""


@dataclass(frozen=True)
class Verdict:
    """How it is."""

    phase: JobPhase
    reason: StrEnum
    message: str
    stalled: bool = False
    """Whether somebody has to act."""
    waiting: bool = False
    """Whether it waits for a time: nothing is on the way."""

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in (JobPhase.SUCCEEDED, JobPhase.FAILED)


def failed(said: JobWords, reasons: type[StrEnum]) -> Verdict:
    """The last word of a job that has failed; a reason that the kind does not know is none."""
    reason = reasons(said.reason) if said.reason in list(reasons) else JobReason.JOB_FAILED
    return Verdict(JobPhase.FAILED, reason, said.message or "the job gives no reason", stalled=True)


def suspended(*, wanted: bool, meaning: str) -> Verdict | None:
    """Whether a person has stopped it, and what that means."""
    if not wanted:
        return None
    message = f"spec.suspend is true: nothing runs, and {meaning}"
    return Verdict(JobPhase.SUSPENDED, JobReason.SUSPENDED, message)


def not_applied(seen: Seen, noun: str) -> Verdict | None:
    """Whether its objects cannot be made: a name is taken, or the API server refuses."""
    if seen.foreign:
        message = f"{', '.join(seen.foreign)} belongs to somebody else: remove it, or rename the {noun}"
        return Verdict(JobPhase.PENDING, JobReason.NAME_CONFLICT, message, stalled=True)
    if seen.refusal:
        return Verdict(seen.phase_before, JobReason.OBJECT_REJECTED, seen.refusal, stalled=True)
    return None


def being_made(seen: Seen, kind: str) -> Verdict | None:
    """Whether its job is not there yet, or goes before another one comes."""
    if seen.job is not None and not seen.job_leaving:
        return None
    return Verdict(JobPhase.PENDING, JobReason.PROGRESSING, f"its {kind} is being made")


def pod_failed(seen: Seen) -> Verdict | None:
    """What keeps a pod from starting."""
    for pod in pod_views(seen.pods):
        problem = pod_problem(pod) if pod.counts else None
        if problem is not None:
            # A pod without a node has not failed: another one may end, or a node may be added.
            waits = problem.reason is Reason.UNSCHEDULABLE and not problem.stalled
            reason = JobReason.PROGRESSING if waits else JobReason.POD_FAILED
            return Verdict(JobPhase.STARTING, reason, problem.message, stalled=problem.stalled)
    return None


def pod_rejected(seen: Seen, containers: Mapping[str, PodFields]) -> Verdict | None:
    """Return the verdict on a job whose pod the API server rejects, with the field to set.

    Args:
        seen: What is seen of it.
        containers: Fields of the pod's containers, by name.
    """
    if not seen.rejection:
        return None
    message = with_fix(f"no pod can be made: {excerpt(seen.rejection)}", fix(seen.rejection, containers))
    return Verdict(JobPhase.STARTING, JobReason.POD_FAILED, message, stalled=rejects(seen.rejection))


def leads_nowhere(referred: Referred) -> str:
    """Why a reference leads to nothing, and what it could name; empty: it leads to something."""
    if referred.manifest is not None:
        return ""
    return f"there is no {referred.words} in this namespace; {choice(referred.name, referred.others)}"


def choice(wanted: str, there: Collection[str]) -> str:
    """What could be named instead, in words: the one most like it, and what there is."""
    names = sorted(there)
    if not names:
        return "there is none"
    near = get_close_matches(wanted, names, n=1)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{f'did you mean {near[0]}? ' if near else ''}there is: {', '.join(names[:_LISTED])}{more}"
