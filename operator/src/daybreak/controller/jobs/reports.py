"""Reports of Daybreak's jobs, read every few seconds: progress and outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from daybreak.api.common.unstructured import Manifest, at, mapping, text
from daybreak.controller.asking.pod_reports import HttpReporter, PodProber, Reporter
from daybreak.jobs.observed import JobWords
from daybreak.manifests.keys import Key
from daybreak.ray.ports import BATCH
from daybreak.ray.views.ray_pods import pod_views

Words = TypeVar("Words", bound=JobWords)

HEARD = "?heard=true"
"""Query that confirms to a job that its final report is in the status, so that the job may end."""
PAUSE_SECONDS = 4.0
_STATE_LIMIT = 32
_REASON_LIMIT = 64
_MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Job:
    """A job to query, and its address."""

    uid: str
    """UID of the owning object. A report for another object is rejected."""
    address: str
    """IP of the job's pod."""
    received: bool
    """True if the job's final report is in the status."""


def running_job(uid: str, pods: Sequence[Manifest], *, received: bool, role: str | None = None) -> Job | None:
    """Return the job with a running pod, or None if there is none.

    Args:
        uid: UID of the owning object.
        pods: Pods of that object.
        received: True if the job's final report is in the status.
        role: Role of the Ray pod that runs the job; None if there is only one pod.
    """
    for pod in pod_views(pods):
        address = text(at(pod.manifest, "status").get("podIP"))
        if role in (None, pod.role) and pod.ready and pod.counts and address:
            return Job(uid, address, received)
    return None


def own_report(content: bytes, uid: str) -> Mapping[str, Any] | None:
    """Return a job's answer, or None if it is for another object. Raise ValueError if it is no JSON."""
    report = mapping(orjson.loads(content))
    return report if report.get("uid") == uid else None


def words(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of JobWords in an answer. Values of another type become empty."""
    return {
        "state": text(report.get("state"))[:_STATE_LIMIT],
        "final": report.get("final") is True,
        "reason": text(report.get("reason"))[:_REASON_LIMIT],
        "message": text(report.get("message"))[:_MESSAGE_LIMIT],
    }


def http_reporter(
    path: str, read: Callable[[bytes, str], Words | None], most: int = 64 * 1024
) -> HttpReporter[Job, Words]:
    """Return a reporter that queries jobs over HTTP.

    Args:
        path: Path of the job's report.
        read: Parses a report from an answer's content, for the object with a UID.
        most: Maximum size of an answer in bytes.
    """
    return HttpReporter(
        BATCH,
        lambda job: path + (HEARD if job.received else ""),
        lambda content, job: read(content, job.uid),
        most,
    )


class JobProber(Generic[Words]):
    """Queries the job of each object, and calls back when its report changes."""

    def __init__(self, reporter: Reporter[Job, Words], on_change: Callable[[Key], None]) -> None:
        pauses = (PAUSE_SECONDS, PAUSE_SECONDS)
        self._prober: PodProber[str, Job, Words] = PodProber(
            "job", reporter, on_change, name=lambda job: job.uid, pauses=pauses
        )

    def message(self, key: Key, job: Job | None) -> Words | None:
        """Return the last report of a job. Without a job, queries stop."""
        if job is None:
            self.forget(key)
            return None
        return self._prober.reports(key, (job,)).get(job.uid)

    def forget(self, key: Key) -> None:
        """Stop querying the job of an object."""
        self._prober.forget(key)

    async def close(self) -> None:
        """Stop all queries."""
        await self._prober.close()
