"""Replicas of Daybreak's LLMServer on a real Ray Serve, with the options that the operator writes.

The engine is a stub (`engines.py`). Requests come to a replica's own port, as from a gateway, or through
Serve.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.serving.conftest import TARGET_REQUESTS

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]

PUSH_SECONDS = 10.0
"""How often Serve's replicas and handles report their requests."""
_PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Up:
    """A replica that answers at its own port."""

    pid: int
    engine: int
    port: int

    @property
    def url(self) -> str:
        """Return the URL of the completions endpoint."""
        return f"http://127.0.0.1:{self.port}/v1/completions"


@pytest.fixture
async def session(serving: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client without a limit of connections, while Serve runs."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as opened:
        yield opened


async def up(session: aiohttp.ClientSession, folder: Path) -> list[Up]:
    """Return the replicas that take requests now."""
    written = await asyncio.to_thread(_written, folder)
    return [each for each in written if await _healthy(session, each)]


def _written(folder: Path) -> list[Up]:
    return [Up(**json.loads(file.read_text())) for file in folder.glob("*.json")]


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _healthy(session: aiohttp.ClientSession, replica: Up) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{replica.port}/-/healthz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; fail if it takes too long."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not await holds():  # noqa: ASYNC110 -- other processes tell nobody
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"{what} within {_PATIENCE_SECONDS:.0f} s")


async def ask(session: aiohttp.ClientSession, url: str, tokens: int) -> int:
    """Return the status of a completion of `tokens` tokens."""
    async with session.post(url, json={"model": "stub", "prompt": "a", "max_tokens": tokens}) as answer:
        await answer.read()
        return answer.status


@asynccontextmanager
async def clients(session: aiohttp.ClientSession, url: str, number: int) -> AsyncIterator[set[int]]:
    """Keep `number` requests in progress; yields the statuses of those that have ended."""
    statuses: set[int] = set()
    ended = asyncio.Event()

    async def client() -> None:
        while not ended.is_set():
            statuses.add(await ask(session, url, 10))

    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(client())
        try:
            yield statuses
        finally:
            ended.set()


async def test_replica_without_an_engine_ends_and_is_replaced(
    serving: str, replica_folder: Path, session: aiohttp.ClientSession
) -> None:
    [first] = await up(session, replica_folder)
    begun = asyncio.create_task(ask(session, first.url, 3000))
    await asyncio.sleep(1)
    os.kill(first.engine, signal.SIGKILL)
    assert await asyncio.wait_for(begun, 30) == 500, "a request in progress gets the engine's error"

    async def ended() -> bool:
        return not _runs(first.pid)

    await until("the replica's process ends", ended)

    async def replaced() -> bool:
        return [each.pid for each in await up(session, replica_folder)] not in ([], [first.pid])

    await until("Serve starts another replica", replaced)
    [second] = await up(session, replica_folder)
    assert second.pid != first.pid
    assert await ask(session, second.url, 1) == 200

    async def routed() -> bool:
        return await ask(session, f"http://{serving}/engines", 1) == 200

    await until("Serve's proxy leads to the other replica", routed)


async def test_serve_scales_by_request_counts_of_replicas(
    serving: str, replica_folder: Path, session: aiohttp.ClientSession
) -> None:
    async def number(desired: int) -> bool:
        return len(await up(session, replica_folder)) == desired

    await until("one replica is there", lambda: number(1))
    [first] = await up(session, replica_folder)

    # A request through Serve is in the counts of a handle and in those of the replica: Serve counts it once.
    async with clients(session, f"http://{serving}/engines", TARGET_REQUESTS) as statuses:
        for _ in range(int(2 * PUSH_SECONDS) + 5):
            await asyncio.sleep(1)
            assert await number(1), "as many requests as one replica is to have"
    assert statuses == {200}

    # Requests past Serve are in the counts of the replica alone.
    async with clients(session, first.url, 2 * TARGET_REQUESTS) as statuses:
        await until("requests past Serve start a second replica", lambda: number(2))
    assert statuses == {200}
    await until("their end stops one", lambda: number(1))
