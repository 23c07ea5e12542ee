"""Observation of an object that creates one job: the common part of all kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from daybreak.api.common.unstructured import at, mapping, text, whole
from daybreak.api.jobs.words import JobPhase


@dataclass(frozen=True)
class JobWords:
    """Report of a job on itself. Each kind adds fields."""

    state: str
    """`Running`, `Succeeded`, `Failed`, or a state specific to the kind."""
    final: bool
    """True if this is the last report."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Referred:
    """A reference and its target."""

    kind: str
    name: str
    manifest: Mapping[str, Any] | None
    """The target, or None if it does not exist."""
    others: tuple[str, ...] = ()
    """Names of the objects of that kind in the namespace, if the target does not exist."""

    @property
    def words(self) -> str:
        """The reference, for display."""
        return f"{self.kind} {self.name}"


Subject = TypeVar("Subject")
Words = TypeVar("Words", bound=JobWords)


@dataclass(frozen=True)
class ObservedJob(Generic[Subject, Words]):
    """Observation of the object at one time. Each kind adds fields."""

    manifest: Mapping[str, Any]
    subject: Subject | None
    """The object, or None if its spec does not match the API schema."""
    problems: tuple[str, ...]
    """Errors that prevent the operator from building the spec."""
    now: datetime
    job: Mapping[str, Any] | None = None
    """The job that the operator created for the object."""
    pods: tuple[Mapping[str, Any], ...] = ()
    progress: Words | None = None
    """Report of the job on itself."""
    foreign: tuple[str, ...] = ()
    """Names that belong to other owners, as `Kind/name`."""
    refusal: str = ""
    """The API server's message if it rejected an object. Empty otherwise."""
    rejection: str = ""
    """The API server's message when it rejected the last pod of a job without pods."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before this reconcile."""
        return mapping(self.manifest.get("status"))

    @property
    def finished(self) -> bool:
        """True if the status records the end."""
        return bool(self.status.get("completionTime"))

    @property
    def generation(self) -> int:
        """Generation of the spec."""
        return max(0, whole(at(self.manifest, "metadata").get("generation")))

    @property
    def deleting(self) -> bool:
        """True if the object is being deleted."""
        return bool(at(self.manifest, "metadata").get("deletionTimestamp"))

    @property
    def job_leaving(self) -> bool:
        """True if the job is being deleted."""
        return bool(at(self.job, "metadata").get("deletionTimestamp"))

    @property
    def phase_before(self) -> JobPhase:
        """The phase in the status."""
        before = text(self.status.get("phase"))
        return JobPhase(before) if before in list(JobPhase) else JobPhase.PENDING

    def begun_with(self, annotation: str) -> str:
        """Return the digest of the spec with which the job started.

        The digest is in the status, or on a job that the status does not know yet.
        """
        return text(self.status.get("jobHash")) or text(
            at(self.job, "metadata", "annotations").get(annotation)
        )


ObservedT = TypeVar("ObservedT", bound=ObservedJob[Any, Any])
