"""If replicas check bodies, the gateway does not, and only such replicas get unchecked bodies."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.fields import fields
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Gate, Policy, Slot
from tests.gateway.conftest import BODY, Bench
from tests.gateway.fake_serve import FakeServe
from tests.gateway.guard.test_bodies import pieces
from tests.gateway.guard.test_keys import api_key
from tests.gateway.replica_front import ReplicaDoor

CHAT = "/v1/chat/completions"
GUARDED: dict[str, Any] = {"guarded": True, "check": fields.guard_path(), "replicas_listen": True}


def bad(size: int = 0, **more: Any) -> bytes:
    """Return a body with a field that no engine gets, after a text of that size."""
    return json.dumps({"model": "big", "messages": [{"content": "x" * size}], "priority": 1, **more}).encode()


@pytest.fixture
async def replica() -> AsyncIterator[FakeServe]:
    """Yield a simulated replica that checks bodies: it announces that, and accepts every request."""
    async with FakeServe(health=fields.guard_path()) as own:
        yield own


async def awake(bench: Bench, *servers: Server, **more: Any) -> None:
    """Open the gate of a service whose replicas check bodies, as if it had just received a request."""
    await bench.gate(Gate.OPEN, **{**GUARDED, **more})
    await bench.gateway.set_servers("s0", servers)
    await bench.until(lambda state: state.servers_up == len(servers))


@pytest.mark.parametrize("size", [0, 20_000, 100_000, 1_000_000])
async def test_bodies_bypass_lua_unchanged_if_replica_checks_bodies(
    bench: Bench, replica: FakeServe, size: int
) -> None:
    await awake(bench, replica.address)
    replica.bodies = {}
    for name in ("one", "two"):
        assert (await bench.ask(name, bad(size)))[0] == 200
    assert replica.bodies == dict.fromkeys(("one", "two"), bad(size))
    assert replica.paths == dict.fromkeys(("one", "two"), fields.guard_path() + CHAT)
    state = await bench.until(lambda state: state.in_flight == 0)
    assert (state.arrivals, state.past_lua, state.ends) == (2, 2, {"passed": 2})


@pytest.mark.parametrize("size", [0, 20_000, 100_000])
async def test_gateway_checks_bodies_if_replicas_do_not(bench: Bench, size: int) -> None:
    await bench.wake(replicas_listen=True)
    status, _, answer = await bench.ask("bad", bad(size))
    assert (status, answer["error"]["param"]) == (400, "priority")
    assert (await bench.ask("good", json.dumps({"messages": [{"content": "x" * size}]}).encode()))[0] == 200
    assert bench.serve.whole == {"good": 1}
    assert bench.serve.paths["good"] == CHAT


async def test_replica_without_proof_of_body_check_gets_no_request(bench: Bench, replica: FakeServe) -> None:
    await awake(bench, replica.address)
    await bench.gateway.set_servers("s0", [replica.address, bench.serve.address])
    for number in range(6):
        assert (await bench.ask(f"{number}", bad()))[0] == 200
        await asyncio.sleep(0.1)
    assert (replica.observed.total(), bench.serve.observed.total()) == (6, 0)


@pytest.mark.parametrize(
    "more", [{"paths": "any"}, {"keys": [api_key("sk-one", models=("big",))]}, {"replicas_listen": False}]
)  # fmt: skip
async def test_gateway_checks_bodies_despite_guard_unless_any_path_is_allowed(
    bench: Bench, replica: FakeServe, more: dict[str, Any]
) -> None:
    await awake(bench, replica.address, **more)
    for size in (0, 100_000):
        status, _, _ = await bench.ask(f"{size}", bad(size), Authorization="Bearer sk-one")
        assert status == (200 if "paths" in more else 400)


async def test_chunked_body_is_checked_by_gateway_and_too_large_body_is_rejected(
    bench: Bench, replica: FakeServe
) -> None:
    await awake(bench, replica.address, max_body_bytes=150_000)
    assert (await bench.ask("chunks", pieces(bad(100_000))))[0] == 400
    assert (await bench.ask("large", bad(150_000)))[0] == 413
    assert (await bench.ask("fits", bad(149_000)))[0] == 200
    assert replica.whole == {"fits": 1}


@pytest.mark.parametrize("size", [0, 100_000])
async def test_body_of_held_request_is_checked_by_gateway(
    bench: Bench, replica: FakeServe, size: int
) -> None:
    await awake(bench, replica.address)
    await bench.gate(Gate.CLOSED, **GUARDED)
    asking = asyncio.create_task(bench.ask("bad", bad(size)))
    good = asyncio.create_task(
        bench.ask("good", json.dumps({"messages": [{"content": "x" * size}]}).encode())
    )
    await bench.until(lambda state: state.held == (2 if size else 1))
    await bench.gate(Gate.OPEN, **GUARDED)
    assert ((await asking)[0], (await good)[0]) == (400, 200)
    assert replica.whole == {"good": 1}
    assert replica.paths["good"] == CHAT


@pytest.mark.parametrize("size", [0, 20_000, 100_000])
async def test_returned_request_is_checked_before_other_replica_gets_request(
    bench: Bench, replica: FakeServe, size: int
) -> None:
    await awake(bench, replica.address)
    await replica._runner.cleanup()
    asking = [
        asyncio.create_task(bench.ask(f"{number}", body))
        for number, body in enumerate(
            (bad(size), json.dumps({"messages": [{"content": "x" * size}]}).encode())
        )
    ]
    # A small body is rejected at once, a large one while it is forwarded.
    await bench.until(lambda state: state.held == 2 or state.held == state.ends.get("refused") == 1)
    # Those that come now do not look.
    await bench.gateway.set_servers("s0", [bench.serve.address])
    await bench.gate(Gate.OPEN, replicas_listen=True)
    assert [status for status, _, _ in await asyncio.gather(*asking)] == [400, 200]
    assert bench.serve.whole == {"1": 1}
    assert bench.serve.paths["1"] == CHAT


async def test_queued_bad_body_is_rejected_if_new_replica_does_not_check_bodies(
    bench: Bench, replica: FakeServe
) -> None:
    await awake(bench, replace(replica.address, max_connections=1))
    replica.hold_answers = True
    first = asyncio.create_task(bench.ask("first"))
    await bench.until(lambda state: replica.observed["first"] == 1)
    waiting = asyncio.create_task(bench.ask("waits", bad()))
    await bench.until(lambda state: state.in_flight == 2)
    await bench.gateway.set_servers("s0", [bench.serve.address])
    await bench.gate(Gate.OPEN, replicas_listen=True)
    # It has come back to the hold, and was looked at.
    assert (await waiting)[0] == 400
    replica.finish.set()
    assert (await first)[0] == 200
    assert not bench.serve.observed


async def test_request_returns_503_if_server_has_no_guarded_path(bench: Bench) -> None:
    async with FakeServe(health="/-/{any:.*}") as other:
        await awake(bench, other.address)
        status, headers, _ = await bench.ask("one", bad())
        assert (status, "x-daybreak-guard" in headers) == (503, False)
        assert not other.observed


async def test_gateway_checks_bodies_after_replica_stops_checking(bench: Bench, replica: FakeServe) -> None:
    await awake(bench, replica.address)
    assert (await bench.ask("one", bad()))[0] == 200
    await bench.gateway.set_servers("s0", [bench.serve.address])
    await bench.gate(Gate.OPEN, replicas_listen=True)
    assert (await bench.ask("two", bad()))[0] == 400
    assert not bench.serve.observed


async def test_guarded_replica_gets_unchecked_bodies_under_prefix_policy(
    bench: Bench, replica: FakeServe
) -> None:
    await awake(bench, replica.address, choice=Choice(Policy.PREFIX, 10, 1), waits=True)
    for size in (0, 100_000):
        assert (await bench.ask(f"{size}", bad(size)))[0] == 200
    assert replica.observed.total() == 2


@pytest.mark.parametrize("size", [0, 100_000])
async def test_gateway_checks_bodies_only_for_models_whose_replicas_do_not(
    bench: Bench, replica: FakeServe, size: int
) -> None:
    port = bench.gateway.config.first_port
    front = Slot("qwen", Gate.OPEN, 1, listed=("big", "other"), waits=True)
    await bench.gateway.set_gate("s0", front)
    for backend, model, server, more in (
        ("m0", "big", replica.address, GUARDED),
        ("m1", "other", bench.serve.address, {"replicas_listen": True}),
    ):
        slot = Slot("qwen", Gate.OPEN, 1, model, port=port, models=(model,), front=False, **more)
        await bench.gateway.set_gate(backend, slot)
        await bench.gateway.set_servers(backend, [server])
        async with asyncio.timeout(60):
            while not (await bench.gateway.snapshot()).slots[backend].servers_up:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert (await bench.ask("one", bad(size)))[0] == 200
    assert (await bench.ask("two", bad(size).replace(b"big", b"other")))[0] == 400
    assert (replica.whole, bench.serve.whole) == ({"one": 1}, {})


async def test_replica_and_gateway_reject_body_with_same_answer(bench: Bench) -> None:
    report = []
    await bench.wake(replicas_listen=True)
    for size in (0, 100_000):
        report.append((await bench.ask("gateway", bad(size)))[::2])
    async with ReplicaDoor() as door:
        await awake(bench, door.address)
        for size in (0, 100_000):
            assert (await bench.ask("door", bad(size)))[::2] == report.pop(0)
        assert (await bench.ask("good", BODY))[0] == 200
        assert door.begun == {"good": 1}
    state = await bench.state()
    assert state.past_lua == 3
