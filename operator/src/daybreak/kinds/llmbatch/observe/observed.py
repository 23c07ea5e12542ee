"""All inputs of one reconcile of a batch."""

from dataclasses import dataclass, field

from daybreak.api.common.unstructured import Manifest, at, mapping, text, whole
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.jobs.observed import JobWords, ObservedJob, Referred
from daybreak.scheduling.claim import NO_MATTER, Turn


@dataclass(frozen=True)
class Progress(JobWords):
    """Progress that a batch's job reports. `state` may also be `Reading` or `Starting`."""

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
    """Parsed RayJob."""

    deployment: str
    """KubeRay's `jobDeploymentStatus`: Initializing, Running, Complete, Failed, Retrying, Suspended, …"""
    job: str
    """Ray's own status of the job: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED."""
    reason: str
    message: str
    suspended: bool
    """True if the job waits for Kueue."""
    cluster: str
    """Name of the job's RayCluster."""

    @classmethod
    def of(cls, manifest: Manifest) -> "JobView":
        """Parse a RayJob manifest."""
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
class Observed(ObservedJob[LLMBatch, Progress]):
    """Observation of a batch at one time."""

    kuberay_installed: bool = field(kw_only=True)
    turn: Turn = NO_MATTER
    """Turn of the batch in the queue for scarce accelerators."""
    service: Referred | None = None
    """Target of `serviceRef`, or None if the batch has no reference."""

    ray_clusters: tuple[Manifest, ...] = ()

    @property
    def after(self) -> list[str]:
        """Return the workloads ahead of the batch in the queue, as recorded in the status."""
        found = self.status.get("queuedBehind")
        return [text(each) for each in found] if isinstance(found, list) else []

    @property
    def ray_job(self) -> JobView | None:
        """Return the parsed RayJob, or None if there is none."""
        return JobView.of(self.job) if self.job is not None else None

    @property
    def last_counts(self) -> tuple[int, int, tuple[str, ...]]:
        """Return rows, failed rows and first errors from the job's report, or else from the status."""
        if self.progress is not None and self.progress.total:
            return self.progress.total, self.progress.failed, self.progress.errors
        rows, errors = at(self.status, "rows"), self.status.get("errors")
        first = tuple(map(text, errors)) if isinstance(errors, list) else ()
        return max(0, whole(rows.get("total"))), max(0, whole(rows.get("failed"))), first
