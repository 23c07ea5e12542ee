"""Reports of programs in pods, read over HTTP outside the queue's workers."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, Generic, Protocol, TypeVar

from daybreak.controller.asking.pod_client import PodClient
from daybreak.controller.asking.probes import Probes
from daybreak.manifests.keys import Key


class HasAddress(Protocol):
    """A pod that can be queried."""

    @property
    def address(self) -> str:
        """IP of the pod."""
        ...


Source = TypeVar("Source", bound=HasAddress)
Source_contra = TypeVar("Source_contra", contravariant=True)
Report = TypeVar("Report")
Report_co = TypeVar("Report_co", covariant=True)
Name = TypeVar("Name", bound=Hashable)


class Reporter(Protocol[Source_contra, Report_co]):
    """Client that queries one pod. Tests without a cluster network use their own."""

    async def report(self, requested: Source_contra) -> Report_co | None:
        """Return the pod's report, or None if there is none."""
        ...

    async def close(self) -> None:
        """Close open connections."""
        ...


class HttpReporter(Generic[Source, Report]):
    """Queries pods over HTTP.

    Args:
        port: Port of the pod.
        path: Path at the pod, with its query.
        read: Parses a report from the content of an answer; None if the report belongs to another object.
            Raises ValueError if the content is no JSON.
        most: Maximum size of an answer in bytes.
    """

    def __init__(
        self,
        port: int,
        path: Callable[[Source], str],
        read: Callable[[bytes, Source], Report | None],
        most: int,
    ) -> None:
        self._client = PodClient()
        self._port = port
        self._path = path
        self._read = read
        self._most = most

    async def report(self, requested: Source) -> Report | None:
        """Return the pod's report, or None if there is none."""
        content = await self._client.get(requested.address, self._port, self._path(requested), self._most)
        try:
            return None if content is None else self._read(content, requested)
        except ValueError:
            return None

    async def close(self) -> None:
        """Close open connections."""
        await self._client.close()


@dataclass
class _Watched(Generic[Name, Source, Report]):
    requested: tuple[Source, ...]
    reports: dict[Name, Report]


def _never(requested: Any, report: Any) -> bool:
    return False


class PodProber(Generic[Name, Source, Report]):
    """Queries the pods of each object repeatedly, and calls back when a report changes.

    Args:
        what: Subject of the queries, for the names of the tasks.
        reporter: Queries one pod.
        on_change: Called with the key of the object.
        name: Key of a pod's report. A report is kept under this key when the set of pods changes or a query
            restarts.
        pauses: Minimum and maximum pause in seconds between two queries of a pod. The pause doubles until a
            report changes.
        news: Return True if a report differs from the previous one, which may be None.
        settled: Return True if a pod's report is final. The report is None at first.
    """

    def __init__(
        self,
        what: str,
        reporter: Reporter[Source, Report],
        on_change: Callable[[Key], None],
        *,
        name: Callable[[Source], Name],
        pauses: tuple[float, float],
        news: Callable[[Report | None, Report], bool] = ne,
        settled: Callable[[Source, Report | None], bool] = _never,
    ) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._name = name
        self._pauses = pauses
        self._news = news
        self._settled = settled
        self._probes: Probes[_Watched[Name, Source, Report]] = Probes(what)

    def reports(self, key: Key, requested: Sequence[Source]) -> Mapping[Name, Report]:
        """Return the latest reports of pods, by name."""
        current = self._probes.state(key)
        if not requested:
            self.forget(key)
            return {}
        if current is None or current.requested != tuple(requested):
            there = {self._name(each) for each in requested}
            before = current.reports.items() if current is not None else ()
            current = _Watched(tuple(requested), {name: message for name, message in before if name in there})
            self._probes.start(key, current, self._ask(key, current))
        return dict(current.reports)

    def forget(self, key: Key) -> None:
        """Stop querying pods of an object."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop all queries."""
        await self._probes.close()
        await self._reporter.close()

    async def _ask(self, key: Key, watched: _Watched[Name, Source, Report]) -> None:
        pause, longest = self._pauses
        while requested := [each for each in watched.requested if not self._done(watched, each)]:
            answers = await asyncio.gather(*(self._reporter.report(each) for each in requested))
            message = {
                self._name(each): answer
                for each, answer in zip(requested, answers, strict=True)
                if answer is not None and self._news(watched.reports.get(self._name(each)), answer)
            }
            if message:
                watched.reports.update(message)
                pause = self._pauses[0]
                self._on_change(key)
            if all(self._done(watched, each) for each in watched.requested):
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _done(self, watched: _Watched[Name, Source, Report], each: Source) -> bool:
        return self._settled(each, watched.reports.get(self._name(each)))
