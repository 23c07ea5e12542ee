"""What Ray jobs of ours say of themselves, asked every few seconds: how far they are, and how they ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.controller.pod_client import PodClient
from daybreak.controller.probes import Probes
from daybreak.kube.cache import Key
from daybreak.ray.views.ray_pods import HEAD, pod_views

Report = TypeVar("Report")
Report_co = TypeVar("Report_co", covariant=True)

HEARD = "?heard=true"
"""Tells a job that its last word stands in the status: it may end."""
PAUSE_SECONDS = 4.0


@dataclass(frozen=True)
class Job:
    """A job that is asked, and where."""

    uid: str
    """Of the object that it is for: what a job of another one says is not taken."""
    address: str
    """IP of the head pod."""
    heard: bool
    """Whether its last word stands in the status."""


def running_job(uid: str, pods: Sequence[Manifest], *, heard: bool) -> Job | None:
    """The job whose head pod runs; None when there is none."""
    for pod in pod_views(pods):
        address = text(at(pod.manifest, "status").get("podIP"))
        if pod.role == HEAD and pod.ready and pod.counts and address:
            return Job(uid, address, heard)
    return None


class JobReporter(Protocol[Report_co]):
    """Who asks one job. Tests without a cluster network pass their own."""

    async def report(self, job: Job) -> Report_co | None:
        """What the job says; None when it says nothing."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpJobReporter(Generic[Report]):
    """Asks over HTTP.

    Args:
        port: Port of the head pod at which the job answers.
        path: Path there.
        read: Makes a report of an answer's content, for the object with a uid; None where it is not that
            object's. Raises ValueError when it is no JSON.
        most: Longest answer in bytes.
    """

    def __init__(
        self, port: int, path: str, read: Callable[[bytes, str], Report | None], most: int = 64 * 1024
    ) -> None:
        self._client = PodClient()
        self._port = port
        self._path = path
        self._read = read
        self._most = most

    async def report(self, job: Job) -> Report | None:
        """What the job says; None when it says nothing."""
        path = self._path + (HEARD if job.heard else "")
        content = await self._client.get(job.address, self._port, path, self._most)
        if content is None:
            return None
        try:
            return self._read(content, job.uid)
        except ValueError:
            return None

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()


@dataclass
class _Asked(Generic[Report]):
    job: Job
    said: Report | None = None


class JobProber(Generic[Report]):
    """Asks the job of each object, and calls back when it has said something new."""

    def __init__(self, reporter: JobReporter[Report], on_change: Callable[[Key], None]) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._probes: Probes[_Asked[Report]] = Probes("job")

    def said(self, key: Key, job: Job | None) -> Report | None:
        """What that job has said last."""
        current = self._probes.state(key)
        if job is None:
            self.forget(key)
            return None
        if current is None or current.job != job:
            said = current.said if current is not None and current.job.uid == job.uid else None
            current = _Asked(job, said)
            self._probes.start(key, current, self._ask(key, current))
        return current.said

    def forget(self, key: Key) -> None:
        """Stop asking about an object."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._probes.close()
        await self._reporter.close()

    async def _ask(self, key: Key, asked: _Asked[Report]) -> None:
        while True:
            said = await self._reporter.report(asked.job)
            if said is not None and said != asked.said:
                asked.said = said
                self._on_change(key)
            await asyncio.sleep(PAUSE_SECONDS)
