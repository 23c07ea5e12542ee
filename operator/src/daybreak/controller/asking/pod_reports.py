"""What programs in pods say of themselves, asked beside the workers of the queue, over HTTP."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, Generic, Protocol, TypeVar

from daybreak.controller.asking.pod_client import PodClient
from daybreak.controller.asking.probes import Probes
from daybreak.manifests.keys import Key


class HasAddress(Protocol):
    """Who can be asked."""

    @property
    def address(self) -> str:
        """IP of the pod."""
        ...


Asked = TypeVar("Asked", bound=HasAddress)
Asked_contra = TypeVar("Asked_contra", contravariant=True)
Report = TypeVar("Report")
Report_co = TypeVar("Report_co", covariant=True)
Name = TypeVar("Name", bound=Hashable)


class Reporter(Protocol[Asked_contra, Report_co]):
    """Asks one pod. Tests without a cluster network pass their own."""

    async def report(self, asked: Asked_contra) -> Report_co | None:
        """What it says; None when it says nothing."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpReporter(Generic[Asked, Report]):
    """Asks over HTTP.

    Args:
        port: Port of the pod at which it answers.
        path: Path there, with its query.
        read: Makes a report of an answer's content; None where it is somebody else's. Raises ValueError when
            it is no JSON.
        most: Longest answer in bytes.
    """

    def __init__(
        self,
        port: int,
        path: Callable[[Asked], str],
        read: Callable[[bytes, Asked], Report | None],
        most: int,
    ) -> None:
        self._client = PodClient()
        self._port = port
        self._path = path
        self._read = read
        self._most = most

    async def report(self, asked: Asked) -> Report | None:
        """What it says; None when it says nothing."""
        content = await self._client.get(asked.address, self._port, self._path(asked), self._most)
        try:
            return None if content is None else self._read(content, asked)
        except ValueError:
            return None

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()


@dataclass
class _Watched(Generic[Name, Asked, Report]):
    asked: tuple[Asked, ...]
    reports: dict[Name, Report]


def _never(asked: Any, said: Any) -> bool:
    return False


class PodProber(Generic[Name, Asked, Report]):
    """Asks pods of each object again and again, and calls back when one has said something new.

    Args:
        what: What is asked, for the names of the tasks.
        reporter: Asks one pod.
        on_change: Called with the object.
        name: By what a pod's report is kept when others are asked beside it, or it is asked anew.
        pauses: First and longest pause before a pod is asked again, in seconds; it doubles while there is no
            news.
        news: Whether a report says something else than the one before, which may be None.
        settled: Whether what a pod has said, None at first, is its last word.
    """

    def __init__(
        self,
        what: str,
        reporter: Reporter[Asked, Report],
        on_change: Callable[[Key], None],
        *,
        name: Callable[[Asked], Name],
        pauses: tuple[float, float],
        news: Callable[[Report | None, Report], bool] = ne,
        settled: Callable[[Asked, Report | None], bool] = _never,
    ) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._name = name
        self._pauses = pauses
        self._news = news
        self._settled = settled
        self._probes: Probes[_Watched[Name, Asked, Report]] = Probes(what)

    def reports(self, key: Key, asked: Sequence[Asked]) -> Mapping[Name, Report]:
        """What these have said so far, by their names."""
        current = self._probes.state(key)
        if not asked:
            self.forget(key)
            return {}
        if current is None or current.asked != tuple(asked):
            there = {self._name(each) for each in asked}
            before = current.reports.items() if current is not None else ()
            current = _Watched(tuple(asked), {name: said for name, said in before if name in there})
            self._probes.start(key, current, self._ask(key, current))
        return dict(current.reports)

    def forget(self, key: Key) -> None:
        """Stop asking about an object."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._probes.close()
        await self._reporter.close()

    async def _ask(self, key: Key, watched: _Watched[Name, Asked, Report]) -> None:
        pause, longest = self._pauses
        while asked := [each for each in watched.asked if not self._done(watched, each)]:
            answers = await asyncio.gather(*(self._reporter.report(each) for each in asked))
            said = {
                self._name(each): answer
                for each, answer in zip(asked, answers, strict=True)
                if answer is not None and self._news(watched.reports.get(self._name(each)), answer)
            }
            if said:
                watched.reports.update(said)
                pause = self._pauses[0]
                self._on_change(key)
            if all(self._done(watched, each) for each in watched.asked):
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _done(self, watched: _Watched[Name, Asked, Report], each: Asked) -> bool:
        return self._settled(each, watched.reports.get(self._name(each)))
