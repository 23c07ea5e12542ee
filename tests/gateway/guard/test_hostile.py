"""Clients that would fill the gateway, together with honest ones: awake and asleep."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import Bench, running
from tests.gateway.guard.test_keys import api_key
from tests.gateway.hostile import POST, answer_of, crowd, resident
from tests.gateway.replicas.test_malformed import error

MIB = 2**20
BEGUN = POST + b'X-Request-Id: d\r\nContent-Length: 200000\r\n\r\n{"model": "big", "user": "' + b"x" * 40_000
LISTS = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def settings() -> dict[str, Any]:
    """Return the settings that a test overrides in its gateway."""
    return {}


@pytest.fixture
async def bench(tmp_path: Path, settings: dict[str, Any]) -> AsyncIterator[Bench]:
    async with running(tmp_path / "gw", **{"head_timeout": 60, **settings}) as made:
        yield made


async def other_service(bench: Bench) -> str:
    """Set up a second, awake service in slot 1. Returns its address."""
    await bench.gateway.set_servers("s1", [bench.serve.address])
    slot = Slot(service="other", gate=Gate.OPEN, epoch=1, models=("big",))
    await bench.gateway.set_gate("s1", slot)
    async with asyncio.timeout(30):
        while not (await bench.gateway.snapshot()).slots["s1"].servers_up:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return f"http://127.0.0.1:{bench.gateway.config.first_port + 1}"


@pytest.mark.parametrize("settings", [{"body_grace": 1, "body_pace": 65536}])
async def test_slow_body_is_ended_with_408(bench: Bench) -> None:
    await bench.wake()
    loop = asyncio.get_running_loop()
    async with crowd(bench.gateway.config.first_port) as strangers:
        one = await strangers.join(BEGUN)
        await bench.until(lambda state: state.in_flight == 1)
        answer = asyncio.create_task(answer_of(one))
        async with asyncio.timeout(20):
            while (await bench.state()).in_flight:
                await asyncio.sleep(0.1)
                try:
                    await loop.sock_sendall(one, b"x")
                except ConnectionError:
                    break
        assert error(await answer) == (408, "request_timeout")
    await bench.until(lambda state: state.in_flight == 0, 10)


@pytest.mark.parametrize("settings", [{"stall_timeout": 1, "body_grace": 1}])
async def test_stalled_body_is_ended_and_held_request_is_not(bench: Bench) -> None:
    large = b'{"model": "big", "user": "%b"}' % (b"x" * 500_000)
    held = asyncio.create_task(bench.ask("held", large))
    await bench.gate(Gate.CLOSED)
    await bench.until(lambda state: state.held == 1)
    async with crowd(bench.gateway.config.first_port) as strangers:
        await strangers.join(
            POST + b"Content-Length: 200000\r\n\r\n" + b'{"model": "big", "user": "' + b"x" * 40_000
        )
        await bench.until(lambda state: state.held == 2)
        await asyncio.sleep(3)
        await bench.wake()
        assert (await held)[0] == 200
        await bench.until(lambda state: state.in_flight == 0, 10)


@pytest.mark.parametrize("settings", [{"max_connections": 200, "keep_alive_timeout": 120}])
@pytest.mark.parametrize("data", [LISTS, POST], ids=["idle", "unfinished"])
async def test_many_connections_of_one_client_do_not_block_other_clients(bench: Bench, data: bytes) -> None:
    await bench.gate(Gate.CLOSED)
    other = await other_service(bench)
    async with crowd(bench.gateway.config.first_port) as strangers:
        await strangers.all_join(220, data)
        # Neither another service nor this one.
        for url in (other, bench.url) * 10:
            answer = bench.clients.get(url + "/v1/models", headers={"Connection": "close"})
            async with asyncio.timeout(10), answer as found:
                assert found.status == 200


async def test_request_without_key_is_rejected_and_connection_is_closed(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, keys=(api_key("sk-one"),))
    async with crowd(bench.gateway.config.first_port) as strangers:
        one = await strangers.join(POST + b"Content-Length: 16\r\n\r\n" + b'{"model": "big"}')
        assert error(await answer_of(one, 10)) == (401, "invalid_api_key")


@pytest.mark.parametrize("settings", [{"hold_bytes": 16 * MIB}])
@pytest.mark.parametrize("size", [100, 100_000])
async def test_held_requests_of_one_client_stay_within_byte_budget(bench: Bench, size: int) -> None:
    await bench.gate(Gate.CLOSED, max_held=100_000)
    before = resident(bench.gateway.pid)
    body = b'{"model": "big", "user": "%b"}' % (b"x" * size)
    async with crowd(bench.gateway.config.first_port) as strangers:
        request = POST + b"X-Request-Id: s\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        await strangers.all_join(400, request)
        state = await bench.until(lambda state: state.held + state.ends.get("hold_full", 0) == 400)
        assert 0 < state.held < 400
        assert resident(bench.gateway.pid) - before < 2 * 16 * MIB
        # Another client has a separate share.
        honest = asyncio.create_task(bench.ask("honest", body))
        await bench.until(lambda now: now.held == state.held + 1)
        strangers.leave()
        await bench.until(lambda now: now.held == 1)
    await bench.wake()
    assert (await honest)[0] == 200
    assert (await bench.gateway.kept()).held_bytes == 0


@pytest.mark.parametrize("settings", [{"hold_bytes": MIB}])
async def test_request_rejected_for_lack_of_bytes_does_not_count_as_held_by_key(bench: Bench) -> None:
    keys = (api_key("sk-one", held=30),)
    await bench.gate(Gate.CLOSED, keys=keys, max_held=1000)
    headers = {"Authorization": "Bearer sk-one"}
    body = b'{"model": "big"}'
    first = [asyncio.create_task(bench.ask(f"{number}", body, **headers)) for number in range(60)]
    state = await bench.until(lambda now: now.held + now.ends.get("hold_full", 0) == 60)
    assert 0 < state.held < 30, "bytes are what there is too little of"
    await bench.wake(keys=keys)
    assert {answer[0] for answer in await asyncio.gather(*first)} == {200, 429}
    await bench.gate(Gate.CLOSED, keys=keys, max_held=1000)
    again = [
        asyncio.create_task(bench.ask(f"again-{number}", body, **headers)) for number in range(state.held)
    ]
    await bench.until(lambda now: now.held == state.held)
    await bench.gate(Gate.OPEN, keys=keys)
    assert {answer[0] for answer in await asyncio.gather(*again)} == {200}


async def test_one_client_cannot_fill_hold(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, max_held=20)
    async with crowd(bench.gateway.config.first_port) as strangers:
        body = b'{"model": "big"}'
        await strangers.all_join(30, POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        state = await bench.until(lambda now: now.held + now.ends.get("hold_full", 0) == 30)
        assert 10 <= state.held < 20
        honest = asyncio.create_task(bench.ask("honest", body))
        await bench.until(lambda now: now.held == state.held + 1)
        # A client that has left uses no memory.
        strangers.leave()
        await bench.until(lambda now: now.held == 1)
    await bench.wake(max_held=20)
    assert (await honest)[0] == 200


@pytest.mark.parametrize("settings", [{"hold_bytes": 16 * MIB}])
@pytest.mark.parametrize("announced", [b"Content-Length: 10000000", b"Transfer-Encoding: chunked"])
async def test_held_heads_without_bodies_leave_room_for_bodies(bench: Bench, announced: bytes) -> None:
    await bench.gate(Gate.CLOSED, max_held=1000)
    head, heads = POST + announced + b"\r\n\r\n", 40
    async with AsyncExitStack() as stack:
        for number in range(2, 6):
            strangers = await stack.enter_async_context(
                crowd(bench.gateway.config.first_port, f"127.0.0.{number}")
            )
            await strangers.all_join(heads, head)
        await bench.until(lambda state: state.held == 4 * heads)
        body = b'{"model": "big", "user": "%b"}' % (b"x" * 100_000)
        honest = asyncio.create_task(bench.ask("honest", body))
        await bench.until(lambda state: state.held == 4 * heads + 1)
        assert not (await bench.state()).ends
    await bench.until(lambda state: state.held == 1)
    await bench.wake()
    assert (await honest)[0] == 200
    assert (await bench.gateway.kept()).held_bytes == 0


@pytest.mark.parametrize("settings", [{"hold_bytes": 4 * MIB}])
async def test_body_of_a_held_request_is_charged_as_it_comes(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    loop = asyncio.get_running_loop()
    kept: list[int] = []
    async with crowd(bench.gateway.config.first_port) as strangers:
        one = await strangers.join(POST + b"Content-Length: 1000000\r\n\r\n")
        await bench.until(lambda state: state.held == 1)
        for size in (0, 10_000, 300_000):
            kept.append((await bench.gateway.kept()).held_bytes)
            await loop.sock_sendall(one, b"x" * size)
            async with asyncio.timeout(20):
                least = kept[-1] + min(size, 30_000)
                while size and (await bench.gateway.kept()).held_bytes < least:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        kept.append((await bench.gateway.kept()).held_bytes)
        most = bench.gateway.config.kept_bytes
        assert kept[0] < 30_000 < kept[2] < 50_000
        assert most < kept[3] < most + 30_000, "what the kernel keeps behind a full buffer counts"


@pytest.mark.parametrize("settings", [{"hold_bytes": MIB}])
async def test_held_request_whose_body_finds_no_room_is_rejected(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    loop = asyncio.get_running_loop()
    async with crowd(bench.gateway.config.first_port) as strangers:
        for _ in range(4):
            await strangers.join(POST + b"Content-Length: 1000000\r\n\r\n")
        await bench.until(lambda state: state.held == 4)
        for one in strangers.sockets:
            await loop.sock_sendall(one, b"x" * 40_000)
        state = await bench.until(lambda state: "hold_full" in state.ends)
        assert state.held + state.ends["hold_full"] == 4
        answers = [asyncio.create_task(answer_of(one)) for one in strangers.sockets]
        done, others = await asyncio.wait(answers, timeout=2)
        for answer in others:
            answer.cancel()
        assert {error(answer.result()) for answer in done} == {(429, "hold_full")}
    await bench.until(lambda state: state.held == 0)
    assert (await bench.gateway.kept()).held_bytes == 0
