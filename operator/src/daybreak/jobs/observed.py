"""What is seen of an object that becomes one job, as far as it is the same for every kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from daybreak.api.common.unstructured import at, mapping, text, whole
from daybreak.api.jobs.words import JobPhase


@dataclass(frozen=True)
class JobWords:
    """What a job says of itself; each kind adds its own."""

    state: str
    """`Running`, `Succeeded`, `Failed`, or a word of the kind's own."""
    final: bool
    """Whether it is its last word."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Referred:
    """What a reference leads to."""

    kind: str
    name: str
    manifest: Mapping[str, Any] | None
    """None: there is no such object."""
    others: tuple[str, ...] = ()
    """The objects of that kind in the namespace, where this one is not there."""

    @property
    def words(self) -> str:
        """What is referred to, in words."""
        return f"{self.kind} {self.name}"


Subject = TypeVar("Subject")
Words = TypeVar("Words", bound=JobWords)


@dataclass(frozen=True)
class SeenJob(Generic[Subject, Words]):
    """What is seen of it at one moment; each kind adds its own."""

    manifest: Mapping[str, Any]
    subject: Subject | None
    """The object itself; None: its spec has not the form of the API."""
    problems: tuple[str, ...]
    """What keeps the spec from being built."""
    now: datetime
    job: Mapping[str, Any] | None = None
    """The job that was made for it."""
    pods: tuple[Mapping[str, Any], ...] = ()
    progress: Words | None = None
    """What the job says of itself."""
    foreign: tuple[str, ...] = ()
    """Names that somebody else has taken, as `Kind/name`."""
    refusal: str = ""
    """What the API server has refused."""
    rejection: str = ""
    """What the API server reported when it rejected the last pod of a job without pods."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before."""
        return mapping(self.manifest.get("status"))

    @property
    def finished(self) -> bool:
        """Whether its end stands in the status."""
        return bool(self.status.get("completionTime"))

    @property
    def generation(self) -> int:
        """Of the spec."""
        return max(0, whole(at(self.manifest, "metadata").get("generation")))

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return bool(at(self.manifest, "metadata").get("deletionTimestamp"))

    @property
    def job_leaving(self) -> bool:
        """Whether its job is."""
        return bool(at(self.job, "metadata").get("deletionTimestamp"))

    @property
    def phase_before(self) -> JobPhase:
        """The phase in the status."""
        before = text(self.status.get("phase"))
        return JobPhase(before) if before in list(JobPhase) else JobPhase.PENDING

    def begun_with(self, annotation: str) -> str:
        """Digest of what it began with: in the status, or on the job that the status does not know yet."""
        return text(self.status.get("jobHash")) or text(
            at(self.job, "metadata", "annotations").get(annotation)
        )


Seen = TypeVar("Seen", bound=SeenJob[Any, Any])
