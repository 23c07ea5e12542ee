"""Everything that one reconcile of a batch decides on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak.api.common.unstructured import Manifest, at, mapping, text
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.scheduling.turns import NO_MATTER, Turn


@dataclass(frozen=True)
class Progress:
    """What a batch's job says of itself."""

    state: str
    """`Reading`, `Starting`, `Running`, `Succeeded` or `Failed`."""
    final: bool
    """Whether it is its last word."""
    total: int = 0
    done: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    rows_per_second: float | None = None
    tokens_per_second: float | None = None
    errors: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""


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
    leaving: bool
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
            leaving=bool(at(manifest, "metadata").get("deletionTimestamp")),
            cluster=text(status.get("rayClusterName")),
        )


@dataclass(frozen=True)
class Observed:
    """What is seen of a batch at one moment."""

    manifest: Mapping[str, Any]
    batch: LLMBatch | None
    """None: its spec has not the form of the API."""
    problems: tuple[str, ...]
    """What keeps the spec from being built."""
    kuberay_installed: bool
    now: datetime
    ray_job: Mapping[str, Any] | None = None
    pods: tuple[Mapping[str, Any], ...] = ()
    progress: Progress | None = None
    foreign: tuple[str, ...] = ()
    """Names that somebody else has taken, as `Kind/name`."""
    turn: Turn = NO_MATTER
    """Whose turn it is, where accelerators are scarce."""
    refusal: str = ""
    """What the API server has refused."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before."""
        return mapping(self.manifest.get("status"))

    @property
    def after(self) -> list[str]:
        """Workloads that come before it, as the status says it."""
        found = self.status.get("after")
        return [text(each) for each in found] if isinstance(found, list) else []

    @property
    def finished(self) -> bool:
        """Whether its end stands in the status."""
        return bool(self.status.get("finished"))

    @property
    def job(self) -> JobView | None:
        """The RayJob, read."""
        return JobView.of(self.ray_job) if self.ray_job is not None else None
