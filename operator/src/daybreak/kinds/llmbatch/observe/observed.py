"""Everything that one reconcile of a batch decides on."""

from dataclasses import dataclass, field

from daybreak.api.common.unstructured import Manifest, at, mapping, text, whole
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.jobs.observed import JobWords, Referred, SeenJob
from daybreak.scheduling.claim import NO_MATTER, Turn


@dataclass(frozen=True)
class Progress(JobWords):
    """What a batch's job says of itself; `state` may be `Reading` or `Starting` too."""

    total: int = 0
    done: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    rows_per_second: float | None = None
    tokens_per_second: float | None = None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobView:
    """A RayJob, read."""

    deployment: str
    """KubeRay's `jobDeploymentStatus`: Initializing, Running, Complete, Failed, Retrying, Suspended, …"""
    job: str
    """Ray's own status of the job: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED."""
    reason: str
    message: str
    suspended: bool
    """Whether it waits for Kueue."""
    cluster: str
    """Name of its RayCluster."""

    @classmethod
    def of(cls, manifest: Manifest) -> "JobView":
        """Read a RayJob."""
        status = mapping(manifest.get("status"))
        return cls(
            deployment=text(status.get("jobDeploymentStatus")),
            job=text(status.get("jobStatus")),
            reason=text(status.get("reason")),
            message=text(status.get("message")),
            suspended=at(manifest, "spec").get("suspend") is True,
            cluster=text(status.get("rayClusterName")),
        )


@dataclass(frozen=True)
class Observed(SeenJob[LLMBatch, Progress]):
    """What is seen of a batch at one moment."""

    kuberay_installed: bool = field(kw_only=True)
    turn: Turn = NO_MATTER
    """Whose turn it is, where accelerators are scarce."""
    service: Referred | None = None
    """What `serviceRef` leads to; None: the batch has none."""

    ray_clusters: tuple[Manifest, ...] = ()

    @property
    def after(self) -> list[str]:
        """Workloads that come before it, as the status says it."""
        found = self.status.get("queuedBehind")
        return [text(each) for each in found] if isinstance(found, list) else []

    @property
    def ray_job(self) -> JobView | None:
        """The RayJob, read."""
        return JobView.of(self.job) if self.job is not None else None

    @property
    def last_counts(self) -> tuple[int, int, tuple[str, ...]]:
        """Rows, failed rows and the first errors, as the job or else the status last reported them."""
        if self.progress is not None and self.progress.total:
            return self.progress.total, self.progress.failed, self.progress.errors
        rows, errors = at(self.status, "rows"), self.status.get("errors")
        first = tuple(map(text, errors)) if isinstance(errors, list) else ()
        return max(0, whole(rows.get("total"))), max(0, whole(rows.get("failed"))), first
