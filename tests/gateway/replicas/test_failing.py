"""A replica that answers each request with an error at once does not attract the requests of the others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Self

import pytest
from aiohttp import web

from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import BODY, Bench

SLOW = 0.05
"""Seconds that a good answer takes: the replica that fails at once is the less busy one."""


class Replica:
    """A replica whose answers have a status, and which says how it is."""

    def __init__(self, status: int = 200, health: int = 200, delay: float = SLOW) -> None:
        self.status = status
        self.health = health
        self.delay = delay
        self.requested = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/-/healthz", self._health)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.server = Server(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=self.health)

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.requested += 1
        await asyncio.sleep(self.delay)
        return web.json_response(
            {"error": {"message": "no"}} if self.status >= 400 else {}, status=self.status
        )


@pytest.fixture
async def good() -> AsyncIterator[Replica]:
    """Yield a replica that works."""
    async with Replica() as made:
        yield made


@pytest.fixture
async def bad() -> AsyncIterator[Replica]:
    """Yield a replica whose engine fails at once."""
    async with Replica(500, delay=0) as made:
        yield made


async def serve(bench: Bench, *replicas: Replica) -> None:
    """Have these replicas, all of them up."""
    await bench.gateway.set_servers("s0", [each.server for each in replicas])
    await bench.gate(Gate.OPEN, replicas_listen=True)
    await bench.until(lambda state: state.servers_up == len(replicas))


async def load(bench: Bench, requests: int = 300, at_once: int = 10) -> Counter[int]:
    """Send requests, `at_once` at a time. Returns the statuses."""
    found: Counter[int] = Counter()
    names = iter(range(requests))

    async def client() -> None:
        for name in names:
            found[(await bench.ask(f"r{name}", BODY))[0]] += 1

    await asyncio.gather(*(client() for _ in range(at_once)))
    return found


async def test_replica_whose_engine_fails_gets_no_more_requests(
    bench: Bench, good: Replica, bad: Replica
) -> None:
    await serve(bench, good, bad)
    bad.health = 503
    found = await load(bench)
    # Some were in flight when the last of the row was answered.
    assert found[500] <= bench.gateway.config.errors_in_a_row + 10
    assert found[200] + found[500] == 300
    assert (await bench.state()).servers_up == 1
    bad.health = bad.status = 200
    await bench.until(lambda state: state.servers_up == 2)
    before = bad.requested
    assert await load(bench, 20) == {200: 20}
    assert bad.requested > before


async def test_failing_replica_that_reports_healthy_gets_few_requests(
    bench: Bench, good: Replica, bad: Replica
) -> None:
    await serve(bench, good, bad)
    found = await load(bench)
    # It receives a request after each successful check, every quarter of a second.
    assert found[500] < 300 / 3


async def test_errors_between_good_answers_do_not_remove_replica(bench: Bench, good: Replica) -> None:
    async with Replica() as mixed:
        await serve(bench, good, mixed)
        for _ in range(4):
            for status in (500, 200):
                mixed.status = good.status = status
                assert await load(bench, 8, 2) == {status: 8}
                assert (await bench.state()).servers_up == 2


async def test_last_replica_is_not_taken_away(bench: Bench, bad: Replica) -> None:
    await serve(bench, bad)
    assert await load(bench, 30) == {500: 30}
    assert (await bench.state()).servers_up == 1


@pytest.mark.parametrize("status", [400, 429, 503])
async def test_answers_400_429_and_503_do_not_remove_replica(
    bench: Bench, good: Replica, status: int
) -> None:
    async with Replica(status, delay=0) as other:
        await serve(bench, good, other)
        await load(bench, 60)
        assert (await bench.state()).servers_up == 2
