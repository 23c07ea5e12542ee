"""What jobs of ours say of themselves, asked every few seconds: how far they are, and how they ended."""

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
"""Tells a job that its last word stands in the status: it may end."""
PAUSE_SECONDS = 4.0
_STATE_LIMIT = 32
_REASON_LIMIT = 64
_MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Job:
    """A job that is asked, and where."""

    uid: str
    """Of the object that it is for: what a job of another one says is not taken."""
    address: str
    """IP of its pod."""
    heard: bool
    """Whether its last word stands in the status."""


def running_job(uid: str, pods: Sequence[Manifest], *, heard: bool, role: str | None = None) -> Job | None:
    """The job whose pod runs; None when there is none.

    Args:
        uid: Of the object that it is for.
        pods: That object's.
        heard: Whether its last word stands in the status.
        role: Which of Ray's pods runs it; None: the only one.
    """
    for pod in pod_views(pods):
        address = text(at(pod.manifest, "status").get("podIP"))
        if role in (None, pod.role) and pod.ready and pod.counts and address:
            return Job(uid, address, heard)
    return None


def said_by(content: bytes, uid: str) -> Mapping[str, Any] | None:
    """A job's answer; None when it is for another object. Raises ValueError when it is no JSON."""
    said = mapping(orjson.loads(content))
    return said if said.get("uid") == uid else None


def words(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of JobWords in an answer. What is of another form reads as nothing."""
    return {
        "state": text(said.get("state"))[:_STATE_LIMIT],
        "final": said.get("final") is True,
        "reason": text(said.get("reason"))[:_REASON_LIMIT],
        "message": text(said.get("message"))[:_MESSAGE_LIMIT],
    }


def http_reporter(
    path: str, read: Callable[[bytes, str], Words | None], most: int = 64 * 1024
) -> HttpReporter[Job, Words]:
    """The reporter that asks jobs over HTTP.

    Args:
        path: Path at which a job answers.
        read: Makes a report of an answer's content, for the object with a uid.
        most: Longest answer in bytes.
    """
    return HttpReporter(
        BATCH,
        lambda job: path + (HEARD if job.heard else ""),
        lambda content, job: read(content, job.uid),
        most,
    )


class JobProber(Generic[Words]):
    """Asks the job of each object, and calls back when it has said something new."""

    def __init__(self, reporter: Reporter[Job, Words], on_change: Callable[[Key], None]) -> None:
        pauses = (PAUSE_SECONDS, PAUSE_SECONDS)
        self._prober: PodProber[str, Job, Words] = PodProber(
            "job", reporter, on_change, name=lambda job: job.uid, pauses=pauses
        )

    def said(self, key: Key, job: Job | None) -> Words | None:
        """What that job has said last; without a job nobody is asked any more."""
        if job is None:
            self.forget(key)
            return None
        return self._prober.reports(key, (job,)).get(job.uid)

    def forget(self, key: Key) -> None:
        """Stop asking about an object."""
        self._prober.forget(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._prober.close()
