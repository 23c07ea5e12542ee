"""Decision on an object that creates one job: a pure function of the observation."""

from dataclasses import dataclass
from typing import Self

from daybreak.api.jobs.words import JobReason
from daybreak.jobs.observed import ObservedT
from daybreak.jobs.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """Decision that follows from an observation. A kind may add fields."""

    apply: bool
    """True if the operator must apply the objects. False leaves them unchanged."""
    running: bool
    """True if a job must exist."""
    verdict: Verdict | None
    """State of the object, or None if its end is in the status, which then stays."""
    job: str
    """Digest of the spec with which the job started. Empty if it has not started."""

    @classmethod
    def settled(cls, observed: ObservedT, begun: str) -> Self | None:
        """Return the decision on an ended object, or on one that cannot be built, or None for others."""
        if observed.finished:
            return cls(apply=False, running=False, verdict=None, job=begun)
        if observed.subject is None or observed.problems:
            message = "; ".join(observed.problems)
            verdict = Verdict(observed.phase_before, JobReason.INVALID_SPEC, message, stalled=True)
            return cls(apply=False, running=False, verdict=verdict, job=begun)
        return None

    @classmethod
    def going_on(
        cls,
        observed: ObservedT,
        verdict: Verdict,
        *,
        begun: str,
        digest: str,
        suspended: bool,
        waits: bool,
        noun: str,
        restart: str,
    ) -> Self:
        """Return the decision on an object that can be built.

        Args:
            observed: The observation.
            verdict: State of the object.
            begun: Digest of the spec with which the job started. Empty if it has not started.
            digest: Digest of the current spec.
            suspended: True if a user has suspended the object.
            waits: True if another reason prevents the job.
            noun: Noun for the work of the job, for messages.
            restart: Instruction to get the current spec applied, for messages.
        """
        changed = bool(begun) and begun != digest
        if changed and not verdict.final:
            message = (
                f"the spec changed after the start of the {noun}, which continues with the previous spec: "
                f"restore the spec, or {restart}"
            )
            verdict = Verdict(verdict.phase, JobReason.SPEC_CHANGED, message, stalled=True)
        return cls(
            apply=not observed.deleting and not verdict.final and not (changed and not suspended),
            running=not suspended and not waits,
            verdict=verdict,
            job=begun or ("" if suspended or waits else digest),
        )
