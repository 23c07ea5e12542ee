"""What is done about an object that becomes one job: a pure function of what is seen."""

from dataclasses import dataclass
from typing import Self

from daybreak.api.jobs.words import JobReason
from daybreak.jobs.observed import Seen
from daybreak.jobs.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """What follows from what is seen; a kind may add its own."""

    apply: bool
    """Whether objects are made what they should be; False: they are left as they are."""
    running: bool
    """Whether there is to be a job."""
    verdict: Verdict | None
    """How it is; None: its end stands in the status, which stays."""
    job: str
    """Digest of what it began with; empty: it has not begun."""

    @classmethod
    def settled(cls, seen: Seen, begun: str) -> Self | None:
        """The decision where there is nothing to weigh: it has ended, or cannot be built."""
        if seen.finished:
            return cls(apply=False, running=False, verdict=None, job=begun)
        if seen.subject is None or seen.problems:
            message = "; ".join(seen.problems)
            verdict = Verdict(seen.phase_before, JobReason.INVALID_SPEC, message, stalled=True)
            return cls(apply=False, running=False, verdict=verdict, job=begun)
        return None

    @classmethod
    def going_on(
        cls,
        seen: Seen,
        verdict: Verdict,
        *,
        begun: str,
        digest: str,
        suspended: bool,
        waits: bool,
        noun: str,
        anew: str,
    ) -> Self:
        """The decision on one that can be built.

        Args:
            seen: What is seen of it.
            verdict: How it is.
            begun: Digest of what it began with; empty: it has not begun.
            digest: The same of the spec as it is now.
            suspended: Whether a person has stopped it.
            waits: Whether there is to be no job for another reason.
            noun: What it is called.
            anew: How a person gets what the spec says now.
        """
        changed = bool(begun) and begun != digest
        if changed and not verdict.final:
            message = (
                f"the spec was changed after the {noun} had begun, and it goes on as it began: "
                f"put the spec back, or {anew}"
            )
            verdict = Verdict(verdict.phase, JobReason.SPEC_CHANGED, message, stalled=True)
        return cls(
            apply=not seen.deleting and not verdict.final and not (changed and not suspended),
            running=not suspended and not waits,
            verdict=verdict,
            job=begun or ("" if suspended or waits else digest),
        )
