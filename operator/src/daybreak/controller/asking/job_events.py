"""Rejected pods of Jobs, which the API server reports only in events of the Job.

Events are read only for Jobs without pods, because a cluster can have many thousands of events.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, condition, mapping, mappings, text, whole
from daybreak.controller.asking.probes import Probes
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import EVENTS

FIRST_PAUSE_SECONDS = 2.0
"""Time in seconds until the events of a new Job are read. Most pods are created before."""
LONGEST_PAUSE_SECONDS = 30.0
FORBIDDEN_SECONDS = 600.0
"""Time in seconds until events are read again if the operator has no right to read them."""
LIMIT = 50
"""Maximum number of events read per Job."""
REASON = "FailedCreate"
"""Reason of the Job controller's event when the API server rejects a pod."""

log = structlog.get_logger("daybreak.job-events")


@dataclass(frozen=True)
class WaitingJob:
    """A Job without pods."""

    namespace: str
    name: str
    uid: str


def waiting(jobs: Iterable[Manifest], pods: Sequence[Manifest]) -> tuple[WaitingJob, ...]:
    """Return the running Jobs that have no pods."""
    return tuple(
        WaitingJob(text(metadata.get("namespace")), text(metadata.get("name")), text(metadata.get("uid")))
        for job in jobs
        if (metadata := at(job, "metadata")) and _waits(job, pods)
    )


def _waits(job: Manifest, pods: Sequence[Manifest]) -> bool:
    metadata, status = at(job, "metadata"), at(job, "status")
    ended = any(condition(status, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    if ended or metadata.get("deletionTimestamp") or at(job, "spec").get("suspend"):
        return False
    mine = (at(pod, "metadata", "labels").get(names.JOB_NAME_LABEL) == metadata.get("name") for pod in pods)
    return not any(mine) and not whole(status.get("active"))


@dataclass
class _Watched:
    jobs: tuple[WaitingJob, ...]
    messages: dict[str, str] = field(default_factory=dict)
    """Message of the last rejection, by UID of the Job."""


class JobEvents:
    """Reads the reason why Jobs have no pods, and calls back when the reason changes.

    Args:
        api: The API server.
        on_change: Called with the key of the object that owns the Jobs.
    """

    def __init__(self, api: Api, on_change: Callable[[Key], None]) -> None:
        self._api = api
        self._on_change = on_change
        self._probes: Probes[_Watched] = Probes("job events")

    def rejections(self, key: Key, jobs: Sequence[WaitingJob]) -> Mapping[str, str]:
        """Return the message of the last rejected pod, by name of the Job."""
        if not jobs:
            self.forget(key)
            return {}
        current = self._probes.state(key)
        if current is None or current.jobs != tuple(jobs):
            known = {} if current is None else current.messages
            current = _Watched(tuple(jobs), {job.uid: known[job.uid] for job in jobs if job.uid in known})
            self._probes.start(key, current, self._read(key, current))
        return {job.name: current.messages[job.uid] for job in jobs if job.uid in current.messages}

    def forget(self, key: Key) -> None:
        """Stop reading events of an object's Jobs."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop reading events."""
        await self._probes.close()

    async def _read(self, key: Key, watched: _Watched) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                found = {job.uid: await self._message(job) for job in watched.jobs}
            except ApiError as error:
                log.info("Failed to read events of Jobs", object=str(key), err=str(error))
                if error.forbidden:
                    pause = FORBIDDEN_SECONDS
                continue
            news = {uid: message for uid, message in found.items() if message}
            if not news.items() <= watched.messages.items():
                watched.messages.update(news)
                self._on_change(key)

    async def _message(self, job: WaitingJob) -> str:
        query = {
            "fieldSelector": f"regarding.kind=Job,regarding.uid={job.uid},reason={REASON}",
            "limit": str(LIMIT),
        }
        page = await self._api.request("list", EVENTS, EVENTS.path(job.namespace), query=query)
        events = mappings(page.get("items"))
        last = max(events, key=_time, default=None)
        return "" if last is None else text(last.get("note"))


def _time(event: Mapping[str, Any]) -> str:
    """Return the time of an event's last report; such times sort as text."""
    series = mapping(event.get("series"))
    times = (
        series.get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        at(event, "metadata").get("creationTimestamp"),
    )
    return next((text(each) for each in times if each), "")
