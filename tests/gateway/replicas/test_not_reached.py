"""Servers that cannot be reached: what has not been sent to one is held, and then sent once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.fake_serve import FakeServe
from tests.gateway.replicas.test_replicas import BIG, Replicas
from tests.gateway.wire import Wire

LARGE = b'{"model": "big", "messages": [{"content": "%s"}]}' % (b"x" * 200_000)
PURGED = 1.0
"""Seconds without any request."""
LOOK = 6
"""Seconds in which a request that is not held has long been answered 503."""


class Cluster:
    """A service, and the wires to the servers that answer for it."""

    def __init__(self, bench: Bench, wires: list[Wire], serves: list[FakeServe], *, proxy: bool) -> None:
        self.bench = bench
        self.wires = wires
        self.serves = serves
        self.proxy = proxy

    async def open(self, **more: Any) -> None:
        """The gate is open, and all of them are up."""
        self.bench.epoch += 1
        await self.gate(Gate.OPEN, **more)
        servers = [replace(wire.address, max_connections=0 if self.proxy else 4) for wire in self.wires]
        await self.bench.gateway.set_servers("s0", servers)
        await self.bench.until(lambda state: state.servers_up == len(self.wires))

    async def gate(self, gate: Gate, **more: Any) -> None:
        """Set the gate."""
        await self.bench.gate(gate, replicas_listen=not self.proxy, **more)

    def ask(self, name: str, body: bytes = BIG, **headers: str) -> "asyncio.Task[Any]":
        """Send a request."""
        return asyncio.create_task(self.bench.ask(name, body, **headers))

    @property
    def observed(self) -> dict[str, int]:
        """Return how often each request has arrived at any of them."""
        found = self.serves[0].observed.copy()
        for serve in self.serves[1:]:
            found += serve.observed
        return dict(found)

    async def answered(self, *asking: "asyncio.Task[Any]") -> list[int]:
        """Return the statuses of these requests."""
        async with asyncio.timeout(60):
            return [status for status, _, _ in await asyncio.gather(*asking)]


def loss(name: str) -> tuple[Callable[[Wire], Any], Callable[[Wire], Any]]:
    """Return the functions that cut a wire, and restore it."""
    return (Wire.cut, Wire.mend) if name == "cut" else (Wire.silence, Wire.speak)


Make = Callable[..., Awaitable[Cluster]]


@pytest.fixture
async def make(bench: Bench) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        async def made(count: int, *, proxy: bool = False) -> Cluster:
            serves = [await stack.enter_async_context(FakeServe()) for _ in range(count)]
            wires = [await stack.enter_async_context(Wire(serve.address)) for serve in serves]
            return Cluster(bench, wires, serves, proxy=proxy)

        yield made


@pytest.mark.parametrize("proxy", [True, False])
@pytest.mark.parametrize("how", ["cut", "silent"])
async def test_requests_are_held_while_only_server_is_unreachable(make: Make, how: str, proxy: bool) -> None:
    lose, find = loss(how)
    cluster = await make(1, proxy=proxy)
    await cluster.open()
    await asyncio.sleep(PURGED)
    lose(cluster.wires[0])
    await asyncio.sleep(0.3)  # a connection that was kept is known to have ended
    asking = [cluster.ask(f"r{number}", LARGE if number % 3 == 0 else BIG) for number in range(20)]
    await asyncio.sleep(LOOK)
    assert not [task for task in asking if task.done()]
    state = await cluster.bench.state()
    assert (state.held, state.in_flight, state.servers_up) == (20, 0, 0)
    find(cluster.wires[0])
    assert await cluster.answered(*asking) == [200] * 20
    assert cluster.observed == {f"r{number}": 1 for number in range(20)}
    state = await cluster.bench.until(lambda state: not state.in_flight)
    assert (state.arrivals, state.held, state.ends) == (20, 0, {"passed": 20})
    assert (state.answers["2xx"], state.answers["5xx"]) == (20, 0)
    assert await cluster.answered(cluster.ask("after")) == [200]


async def test_silent_node_is_detected_without_requests(make: Make) -> None:
    cluster = await make(1)
    await cluster.open()
    cluster.wires[0].silence()
    # A check each 20 s, and the next two after 250 ms: a dead node answers none within 1.5 s.
    await cluster.bench.until(lambda state: state.servers_up == 0, 28)
    cluster.wires[0].speak()
    assert await cluster.answered(cluster.ask("after")) == [200]


@pytest.mark.parametrize("how", ["cut", "silent"])
async def test_requests_go_to_other_replica_if_first_is_unreachable(make: Make, how: str) -> None:
    cluster = await make(2)
    await cluster.open()
    loss(how)[0](cluster.wires[0])
    asking = [cluster.ask(f"r{number}") for number in range(20)]
    async with asyncio.timeout(5):
        assert await cluster.answered(*asking) == [200] * 20
    assert cluster.serves[1].observed == {f"r{number}": 1 for number in range(20)}


async def test_serve_proxy_gets_requests_if_replica_is_unreachable(bench: Bench, make: Make) -> None:
    """Serve's proxy gets requests that replicas cannot accept, while one proxy is up."""
    cluster = await make(1)
    await cluster.bench.gateway.set_servers("s0", [replace(bench.serve.address, backup=True)])
    scene = Replicas(bench, [])
    await scene.gate()
    await bench.gateway.set_servers("s0", [cluster.wires[0].address, scene.proxy])
    await bench.until(lambda state: state.servers_up == 1)
    await asyncio.sleep(1)
    cluster.wires[0].cut()
    assert await cluster.answered(*[cluster.ask(f"r{number}") for number in range(10)]) == [200] * 10
    assert bench.serve.observed == {f"r{number}": 1 for number in range(10)}


async def test_queued_requests_wait_and_sent_requests_fail_if_replica_is_cut_off(make: Make) -> None:
    cluster = await make(1)
    await cluster.open(queue=100)
    cluster.serves[0].hold_answers = True
    asking = [cluster.ask(f"r{number}") for number in range(10)]
    await cluster.bench.until(lambda state: state.in_flight == 10)
    async with asyncio.timeout(20):
        while len(cluster.observed) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    cluster.wires[0].cut()
    sent = set(cluster.observed)
    cut = [task for number, task in enumerate(asking) if f"r{number}" in sent]
    assert await cluster.answered(*cut) == [502] * 4
    await asyncio.sleep(LOOK)
    left = [task for number, task in enumerate(asking) if f"r{number}" not in sent]
    assert not [task for task in left if task.done()]
    cluster.serves[0].finish.set()
    cluster.wires[0].mend()
    assert await cluster.answered(*left) == [200] * 6
    assert set(cluster.observed.values()) == {1}


async def test_held_request_times_out_if_server_stays_unreachable(make: Make) -> None:
    cluster = await make(1)
    await cluster.open(hold_ms=3000)
    await asyncio.sleep(PURGED)
    cluster.wires[0].cut()
    status, headers, answer = await cluster.ask("late")
    assert (status, headers["Retry-After"], answer["error"]["code"]) == (503, "10", "wake_timeout")
    assert (await cluster.bench.state()).ends == {"passed": 1, "timed_out": 1}
    assert not cluster.observed


async def test_held_request_of_departed_client_never_reaches_model(make: Make) -> None:
    cluster = await make(1)
    await cluster.open()
    await asyncio.sleep(PURGED)
    cluster.wires[0].cut()
    asking = [cluster.ask(f"r{number}", LARGE if number % 2 else BIG) for number in range(4)]
    await cluster.bench.until(lambda state: state.held == 4)
    for task in asking[:2]:
        task.cancel()
    await cluster.bench.until(lambda state: state.held == 2, 20)
    cluster.wires[0].mend()
    assert await cluster.answered(*asking[2:]) == [200] * 2
    assert cluster.observed == {"r2": 1, "r3": 1}


async def test_requests_stay_held_if_gate_closes_while_server_is_unreachable(make: Make) -> None:
    """The cluster is replaced: no request is in flight to the old one."""
    cluster = await make(2)
    await cluster.open()
    await cluster.bench.gateway.set_servers("s0", [cluster.wires[0].address])
    await asyncio.sleep(PURGED)
    cluster.wires[0].silence()
    asking = [cluster.ask(f"r{number}") for number in range(4)]
    await cluster.bench.until(lambda state: state.held == 4)
    await cluster.gate(Gate.CLOSED)
    state = await cluster.bench.state()
    assert (state.held, state.in_flight) == (4, 0)
    await cluster.bench.gateway.set_servers("s0", [cluster.wires[1].address])
    await asyncio.sleep(1)
    assert not [task for task in asking if task.done()]
    await cluster.gate(Gate.OPEN)
    assert await cluster.answered(*asking) == [200] * 4
    assert cluster.serves[1].observed == {f"r{number}": 1 for number in range(4)}


async def test_held_request_counts_once_for_its_key(make: Make) -> None:
    from tests.gateway.guard.test_keys import KEYS

    cluster = await make(1)
    await cluster.open(keys=KEYS)
    await asyncio.sleep(PURGED)
    cluster.wires[0].cut()
    asking = cluster.ask("one", Authorization="Bearer sk-one")
    await cluster.bench.until(lambda state: state.held == 1)
    cluster.wires[0].mend()
    assert await cluster.answered(asking) == [200]
    headers = cluster.serves[0].headers
    assert "authorization" not in headers
    assert [name for name in headers if name.startswith("x-daybreak")] == ["x-daybreak-key-name"]
    state = await cluster.bench.state()
    assert {name: key.requests for name, key in state.keys.items() if key.requests} == {KEYS[0].name: 1}
