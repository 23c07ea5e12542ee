"""Small requests to an awake service bypass Lua: they are counted and stopped like all others."""

import asyncio
import json
import random
import time

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import BODY, Bench
from tests.gateway.guard.test_keys import KEYS
from tests.gateway.replicas.test_malformed import error

LARGE = json.dumps({"messages": [{"content": "x" * 50_000}]}).encode()
ESCAPED = rb'{"messages": [{"content": "\u00e9"}]}'
BODIES = (BODY, LARGE, ESCAPED, b"{}", b' {"n": 2}')


async def test_only_small_request_with_known_model_bypasses_lua(bench: Bench) -> None:
    await bench.wake()
    for number in range(3):
        assert (await bench.ask(f"small-{number}"))[0] == 200
    assert (await bench.state()).past_lua == 3
    for number, body in enumerate(BODIES[1:]):
        assert (await bench.ask(f"other-{number}", body))[0] == 200
    state = await bench.state()
    assert (state.arrivals, state.past_lua, state.ends) == (7, 3, {"passed": 7})
    assert bench.serve.observed.total() == 7


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_is_counted_once_with_and_without_lua(bench: Bench, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 -- a choice of tests
    await bench.wake()
    for turn in range(12):
        await bench.gate(Gate.CLOSED if turn % 2 else Gate.OPEN)
        arrivals = (await bench.state()).arrivals
        asking = [
            asyncio.create_task(bench.ask(f"{turn}-{number}", dice.choice(BODIES)))
            for number in range(dice.randrange(1, 6))
        ]
        arrivals += len(asking)
        state = await bench.until(lambda state, n=arrivals: state.arrivals >= n)  # type: ignore[misc]
        assert state.arrivals == arrivals
        assert state.held == (len(asking) if turn % 2 else 0)
        await bench.gate(Gate.OPEN)
        assert [status for status, _, _ in await asyncio.gather(*asking)] == [200] * len(asking)
        state = await bench.until(lambda state: state.in_flight == 0)
        assert state.ends == {"passed": state.arrivals}
    assert bench.serve.observed.total() == state.arrivals
    assert set(bench.serve.observed.values()) == {1}


async def test_request_past_lua_stays_in_flight_after_gate_closes(bench: Bench) -> None:
    await bench.wake()
    bench.serve.hold_answers = True
    asking = asyncio.create_task(bench.ask("slow"))
    await bench.until(lambda state: bench.serve.observed["slow"] == 1)
    await bench.gate(Gate.CLOSED)
    state = await bench.state()
    assert (state.in_flight, state.held, state.arrivals, state.past_lua) == (1, 0, 1, 1)
    bench.serve.finish.set()
    assert (await asking)[0] == 200
    await bench.until(lambda state: state.in_flight == 0)


async def test_request_past_lua_resets_idle_time(bench: Bench) -> None:
    await bench.wake()
    await bench.until(lambda state: state.idle_ms > 700)
    sequence, _ = await bench.gateway.changes(0)
    began = time.monotonic()
    assert (await bench.ask("one"))[0] == 200
    _, snapshot = await bench.gateway.changes(sequence)
    assert snapshot.slots["s0"].arrivals == 1
    assert snapshot.slots["s0"].idle_ms <= 1000 * (time.monotonic() - began) + 50, (
        "not the 700 ms from before"
    )
    await bench.until(lambda state: state.idle_ms > 700)
    sequence, _ = await bench.gateway.changes(0)
    assert not (await bench.gateway.changes(sequence))[1].slots, "who is idle has changed nothing"


async def test_first_request_after_idle_time_passes_through_lua(bench: Bench) -> None:
    await bench.wake()
    assert (await bench.ask("at once"))[0] == 200
    await bench.until(lambda state: state.idle_ms > 2700)
    assert [(await bench.ask(name))[0] for name in ("first", "second")] == [200, 200]
    state = await bench.until(lambda state: state.in_flight == 0)
    assert (state.arrivals, state.past_lua, state.ends) == (3, 2, {"passed": 3})


async def test_request_is_rejected_after_gate_gets_key_or_limit_or_fails(bench: Bench) -> None:
    await bench.wake()
    assert (await bench.ask("one"))[0] == 200
    await bench.gate(Gate.OPEN, keys=KEYS)
    assert (await bench.ask("two"))[0] == 401
    await bench.gate(Gate.OPEN, max_body_bytes=len(BODY) - 1)
    assert (await bench.ask("three"))[0] == 413
    await bench.gate(Gate.FAILED, reason="gone")
    assert (await bench.ask("four"))[0] == 503
    await bench.gate(Gate.OPEN)
    assert (await bench.ask("five"))[0] == 200
    assert bench.serve.observed == {"one": 1, "five": 1}
    assert (await bench.state()).ends == {"passed": 2, "unauthorized": 1, "too_large": 1, "failed": 1}


@pytest.mark.parametrize("name", ["chat_template", "mm_processor_kwargs", "media_io_kwargs", "n"])
async def test_plain_or_escaped_forbidden_field_is_rejected_at_open_gate(bench: Bench, name: str) -> None:
    await bench.wake()
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    for written in (name, escaped):
        status, _, answer = await bench.ask("one", b'{"%b": 17}' % written.encode())
        assert (status, answer["error"]["param"]) == (400, name)
    assert not bench.serve.observed


async def test_request_is_held_if_open_gate_loses_its_server(bench: Bench) -> None:
    await bench.wake()
    await bench.gateway.set_servers("s0", [])
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    await bench.gateway.set_servers("s0", [bench.serve.address])
    assert (await asking)[0] == 200


async def test_next_service_in_slot_starts_with_zero_counts(bench: Bench) -> None:
    await bench.wake()
    for body in (*BODIES, BODY):
        assert (await bench.ask("old", body))[0] == 200
    await bench.gateway.unset_gate("s0")
    assert (await bench.ask("between"))[0] == 404
    await bench.gateway.set_gate("s0", Slot(service="next", gate=Gate.CLOSED, epoch=9, models=("big",)))
    assert (await bench.state()).arrivals == 0
    await bench.wake()
    assert (await bench.ask("new"))[0] == 200
    assert ((await bench.state()).arrivals, (await bench.state()).ends) == (1, {"passed": 1})


async def test_request_returns_500_if_lua_fails(bench: Bench) -> None:
    await bench.wake()
    await bench.gate(Gate.CLOSED)
    await bench.gateway._api.expect("daybreak set s0 max_held=none", "ok")  # it will miss the number
    status, _, answer = await bench.ask("one")
    assert (status, answer["error"]["code"]) == (500, "internal_error")
    assert not bench.serve.observed


@pytest.mark.parametrize("head_timeout", [1])
async def test_incomplete_small_body_returns_408_and_is_no_arrival(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
    assert error(await bench.send(head)) == (408, "request_timeout")
    assert ((await bench.state()).arrivals, (await bench.state()).held) == (0, 0)


async def test_expect_100_continue_is_answered_for_small_body(bench: Bench) -> None:
    await bench.wake()
    reader, writer = await bench.connect()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nConnection: close\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    assert bench.serve.observed == {"r": 1}
