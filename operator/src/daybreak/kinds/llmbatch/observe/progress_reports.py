"""What the jobs of batches say of themselves, asked beside the workers every few seconds."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import orjson

from daybreak.api.common.unstructured import Manifest, at, mapping, text, whole
from daybreak.kinds.llmbatch.observe.observed import Progress
from daybreak.kube.cache import Key
from daybreak.ray.ports import BATCH
from daybreak.ray.views.ray_pods import HEAD, pod_views

PATH = "/-/batch"
"""Where a job tells how far it is (daybreak_runtime.batch)."""
HEARD = "?heard=true"
"""Tells it that its last word stands in the status: it may end."""
PAUSE_SECONDS = 4.0
PATIENCE_SECONDS = 5.0
_BODY_LIMIT = 64 * 1024
_MESSAGE_LIMIT = 2000
_ERROR_LIMIT = 300


@dataclass(frozen=True)
class Asked:
    """Whose job is asked, and where."""

    uid: str
    """Of the LLMBatch: what another batch says is not taken."""
    address: str
    """IP of the head pod."""
    heard: bool
    """Whether its last word stands in the status."""


def asked(uid: str, pods: Sequence[Manifest], *, heard: bool) -> Asked | None:
    """Whom to ask: the head pod that runs; None when there is none."""
    for pod in pod_views(pods):
        address = text(at(pod.manifest, "status").get("podIP"))
        if pod.role == HEAD and pod.ready and pod.counts and address:
            return Asked(uid, address, heard)
    return None


class Reporter(Protocol):
    """Who asks one job. Tests without a cluster network pass their own."""

    async def report(self, asked: Asked) -> Progress | None:
        """What the job says; None when it says nothing."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpReporter:
    """Asks over HTTP."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def report(self, asked: Asked) -> Progress | None:
        """What the job says; None when it says nothing."""
        host = f"[{asked.address}]" if ":" in asked.address else asked.address
        try:
            content = await self._fetch(f"http://{host}:{BATCH}{PATH}{HEARD if asked.heard else ''}")
            return read(content, asked.uid)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(self, url: str) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=32)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        limits = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        async with self._session.get(url, allow_redirects=False, timeout=limits) as response:
            content = await response.content.read(_BODY_LIMIT)
            if response.status != 200 or not response.content.at_eof():
                raise ValueError(f"{url} answered {response.status}")
            return content


def read(content: bytes, uid: str) -> Progress | None:
    """A job's answer; None when it is another batch's. What is of another form reads as nothing."""
    said = mapping(orjson.loads(content))
    if said.get("uid") != uid:
        return None
    rows, tokens = mapping(said.get("rows")), mapping(said.get("tokens"))
    errors = said.get("errors")
    return Progress(
        state=text(said.get("state"))[:32],
        final=said.get("final") is True,
        total=_count(rows, "total"),
        done=_count(rows, "done"),
        failed=_count(rows, "failed"),
        prompt_tokens=_count(tokens, "prompt"),
        completion_tokens=_count(tokens, "completion"),
        rows_per_second=_rate(said.get("rowsPerSecond")),
        tokens_per_second=_rate(said.get("tokensPerSecond")),
        errors=tuple(text(each)[:_ERROR_LIMIT] for each in errors[:3]) if isinstance(errors, list) else (),
        reason=text(said.get("reason"))[:64],
        message=text(said.get("message"))[:_MESSAGE_LIMIT],
    )


def _count(numbers: Mapping[str, Any], name: str) -> int:
    return max(0, whole(numbers.get(name)))


def _rate(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0.0, float(value)) if known else None


@dataclass
class _Watched:
    asked: Asked
    said: Progress | None = None
    task: asyncio.Task[None] | None = None


class ProgressProber:
    """Asks the job of each batch, and calls back when it has said something new."""

    def __init__(self, reporter: Reporter, on_change: Callable[[Key], None]) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._watched: dict[Key, _Watched] = {}

    def progress(self, key: Key, whom: Asked | None) -> Progress | None:
        """What that job has said last."""
        current = self._watched.get(key)
        if whom is None:
            self.forget(key)
            return None
        if current is None or current.asked != whom:
            said = current.said if current is not None and current.asked.uid == whom.uid else None
            self.forget(key)
            current = _Watched(whom, said)
            current.task = asyncio.create_task(self._watch(key, current), name=f"progress {key}")
            self._watched[key] = current
        return current.said

    def forget(self, key: Key) -> None:
        """Stop asking about a batch."""
        current = self._watched.pop(key, None)
        if current is not None and current.task is not None:
            current.task.cancel()

    async def close(self) -> None:
        """Stop asking."""
        tasks = [current.task for current in self._watched.values() if current.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(aiohttp.ClientError):
            await self._reporter.close()

    async def _watch(self, key: Key, watched: _Watched) -> None:
        while True:
            said = await self._reporter.report(watched.asked)
            if said is not None and said != watched.said:
                watched.said = said
                self._on_change(key)
            await asyncio.sleep(PAUSE_SECONDS)
