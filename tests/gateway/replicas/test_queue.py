"""Requests that wait for a replica of an awake service: limits of number and time, and clear ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.desired.gates import DesiredGate, Ports, desired_state
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench, running
from tests.gateway.guard.test_keys import KEYS
from tests.gateway.hostile import crowd
from tests.gateway.replicas.test_replicas import BIG
from tests.gateway.replicas.test_routing import alone, head, open_gate, worker

QUEUE_TIMEOUT = 2


@pytest.fixture
def queue_timeout() -> int:
    """Return the seconds for which a request may wait for a replica."""
    return QUEUE_TIMEOUT


@pytest.fixture
async def bench(tmp_path: Path, queue_timeout: int) -> AsyncIterator[Bench]:
    async with running(tmp_path / "gw", queue_timeout=queue_timeout, head_timeout=60) as made:
        yield made


@pytest.fixture(params=[True, False], ids=["replica", "proxy"])
def direct(request: pytest.FixtureRequest) -> bool:
    """Return True if the gateway addresses replicas directly, False for Serve's proxy."""
    return bool(request.param)


def read(
    bench: Bench, state: str = "Open", keys: tuple[ApiKey, ...] = (), *, direct: bool = True, **serve: Any
) -> DesiredGate:
    """Return the gateway's gate of a service with one replica that accepts one request at a time."""
    bench.epoch += 1
    model = {"name": "big", "serve": {"maxOngoingRequests": 1, **serve}}
    gate = {
        "port": 20000,
        "backends": [{"cluster": "c"}],
        "models": [open_gate("big", bench.epoch, state)],
    }
    spec = {"models": [model], "runtime": {"directIngress": direct}}
    manifest = {"metadata": {"name": "qwen"}, "spec": spec, "status": {"gate": gate}}
    address: Server = bench.serve.address
    pods, ports = [worker(address.host)], Ports(replica=address.port)
    if not direct:
        pods, ports = [worker("127.0.0.2"), head(address.host)], Ports(serve=address.port)
    found = desired_state(manifest, pods, ports, keys)
    assert found is not None
    return alone(found)


async def program(bench: Bench, claim: DesiredGate) -> None:
    """Tell HAProxy."""
    await bench.gateway.set_servers("s0", claim.servers)
    await bench.gateway.set_gate("s0", claim.slot)
    await bench.until(lambda state: state.servers_up == 1)


async def send_request(bench: Bench, count: int, **headers: str) -> list["asyncio.Task[Any]"]:
    """So many requests, one after the other, that have arrived and are not answered yet."""
    tasks: list[asyncio.Task[Any]] = []
    for number in range(count):
        tasks.append(asyncio.create_task(bench.ask(f"r{number}", BIG, **headers)))
        await bench.until(lambda state: state.in_flight + state.held == len(tasks))
    return tasks


@pytest.mark.parametrize("key", [None, "sk-one"])
async def test_request_above_queue_limit_returns_429(bench: Bench, key: str | None, direct: bool) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    keys = tuple(KEYS) if key else ()
    await program(bench, read(bench, keys=keys, direct=direct, maxQueuedRequests=2))
    bench.serve.hold_answers = True
    waiting = await send_request(bench, 3, **headers)
    status, reported, answer = await bench.ask("four", BIG, **headers)
    assert (status, reported["Retry-After"]) == (429, "10")
    assert (answer["error"]["code"], answer["error"]["type"]) == ("queue_full", "rate_limit_error")
    state = await bench.state()
    assert (state.arrivals, state.ends) == (4, {"passed": 3, "queue_full": 1})
    bench.serve.finish.set()
    assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 3
    assert (await bench.ask("five", BIG, **headers))[0] == 200
    assert bench.serve.observed == dict.fromkeys(["r0", "r1", "r2", "five"], 1)


async def test_held_requests_are_not_rejected_by_queue_limit(bench: Bench, direct: bool) -> None:
    await program(bench, read(bench, "Closed", direct=direct, maxQueuedRequests=1))
    held = await send_request(bench, 6)
    await program(bench, read(bench, direct=direct, maxQueuedRequests=1))
    assert [status for status, _, _ in await asyncio.gather(*held)] == [200] * 6


async def test_queued_request_times_out_with_503_if_replica_is_busy(bench: Bench, direct: bool) -> None:
    await program(bench, read(bench, direct=direct))
    bench.serve.hold_answers = True
    first, second = await send_request(bench, 2)
    status, reported, answer = await second
    assert (status, reported["Retry-After"]) == (503, "5")
    assert "all are busy" in answer["error"]["message"]
    assert answer["error"]["code"] == "service_unavailable"
    bench.serve.finish.set()
    assert (await first)[0] == 200
    assert bench.serve.observed == {"r0": 1}


async def test_removal_of_queue_limit_admits_more_requests(bench: Bench) -> None:
    """The cap follows the spec, and goes with the service."""
    await program(bench, read(bench, maxQueuedRequests=1))
    bench.serve.hold_answers = True
    waiting = await send_request(bench, 2)
    assert (await bench.ask("three", BIG))[0] == 429
    await program(bench, read(bench))
    waiting.append(asyncio.create_task(bench.ask("four", BIG)))
    await bench.until(lambda state: state.in_flight == 3)
    bench.serve.finish.set()
    assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 3
    assert (await bench.state()).gate is Gate.OPEN


@pytest.mark.parametrize("queue_timeout", [60])
@pytest.mark.parametrize("keyed", [False, True])
async def test_single_client_or_key_cannot_fill_queue(bench: Bench, direct: bool, keyed: bool) -> None:
    """A key, or where there are none a client, leaves room for the next one."""
    keys = tuple(KEYS) if keyed else ()
    await program(bench, read(bench, keys=keys, direct=direct, maxQueuedRequests=20))
    bench.serve.hold_answers = True
    lines = [b"Host: x", b"X-Request-Id: s", b"Content-Length: %d" % len(BIG)]
    lines += [b"Authorization: Bearer sk-one"] if keyed else []
    request = b"POST /v1/chat/completions HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + BIG
    async with crowd(bench.gateway.config.first_port) as strangers:
        for _ in range(25):
            await strangers.join(request)
        state = await bench.until(lambda state: state.in_flight + state.ends.get("queue_full", 0) == 25)
        assert 12 <= state.in_flight < 21
        headers = {"Authorization": "Bearer sk-two"} if keyed else {}
        honest = asyncio.create_task(bench.ask("honest", BIG, **headers))
        await bench.until(lambda now: now.in_flight == state.in_flight + 1)
        bench.serve.finish.set()
        assert (await honest)[0] == 200


@pytest.mark.parametrize("queue_timeout", [60])
@pytest.mark.parametrize("late", [False, True])
async def test_request_of_other_key_overtakes_queue_of_first_key(
    bench: Bench, direct: bool, late: bool
) -> None:
    """Forty requests of one key wait for the replica; one of another key comes then."""
    await program(bench, read(bench, keys=tuple(KEYS), direct=direct))
    bench.serve.hold_answers = True
    many = await send_request(bench, 40, Authorization="Bearer sk-one")
    if late:
        await asyncio.sleep(1)
    one = asyncio.create_task(bench.ask("another", BIG, Authorization="Bearer sk-two"))
    await bench.until(lambda state: state.in_flight == 41)
    bench.serve.finish.set()
    assert [status for status, _, _ in await asyncio.gather(one, *many)] == [200] * 41
    order = list(bench.serve.observed)
    assert order.index("another") <= 3
    assert order[-1] == "r39", "and among its own each waits its turn"
