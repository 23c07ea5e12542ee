"""Requests of routes that their backend does not take go to the next one, with real HAProxies.

Each cause, and nothing twice.
"""

import asyncio
import json
import time
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.shares import Share
from daybreak.protocol.tallies import Tally
from tests.gateway.guard.test_keys import api_key
from tests.gateway.router.test_route_tallies import BIG, TINY, counted
from tests.gateway.router.test_shared_names import LONG, ask, ask_many, got, way
from tests.gateway.town import CLOCK_ERROR, MIB, Town

HELD_MS = 300


async def route(town: Town, *, held_ms: int = 0, first: bool = True) -> None:
    """Have the name `chat` lead to the first service, and then to the second one."""
    ways = (way(town, 0),) if first else ()
    fallback = (way(town, 1, held_ms),)
    shares = [Share("r:1", ("chat",), ways, fallback=fallback, since="2026-01-01T00:00:00Z")]
    await town.router.set_routes(town.routes, shares)


async def answered(town: Town, number: int) -> dict[str, Tally]:
    """Return the counts of both backends, once that number of requests has ended."""
    return await counted(town, lambda found: sum(each.answered for each in found.values()) == number)


async def test_request_held_too_long_moves_to_fallback_and_wakes_first_backend(town: Town) -> None:
    await town.wake(1)
    await route(town, held_ms=HELD_MS)
    began = time.monotonic()
    requested = asyncio.create_task(ask(town, "r"))
    await town.until(0, lambda state: state.held == 1)
    assert await requested == 200
    assert time.monotonic() - began >= HELD_MS / 1000 - CLOCK_ERROR
    assert got(town) == [0, 1]
    found = await answered(town, 1)
    assert (found[BIG].sent, found[BIG].passed_on, found[BIG].answered) == (1, 1, 0)
    assert (found[TINY].sent, found[TINY].passed_on, found[TINY].answered) == (1, 0, 1)
    state = await town.until(0, lambda state: not state.held)
    assert (state.ends, state.arrivals) == ({"fell_back": 1}, 1)


async def test_request_released_in_time_stays_at_first_backend(town: Town) -> None:
    await town.wake(1)
    await route(town, held_ms=20_000)
    requested = [asyncio.create_task(ask(town, f"r-{number}")) for number in range(5)]
    await town.until(0, lambda state: state.held == 5)
    await town.wake(0)
    assert await asyncio.gather(*requested) == [200] * 5
    assert got(town) == [5, 0]
    assert (await answered(town, 5))[BIG].passed_on == 0


async def test_fallback_without_time_waits_for_hold_timeout(town: Town) -> None:
    await town.wake(1)
    await town.gate(0, Gate.CLOSED, hold_ms=500)
    await route(town)
    began = time.monotonic()
    assert await ask(town, "r") == 200
    assert time.monotonic() - began >= 0.5 - CLOCK_ERROR
    assert got(town) == [0, 1]


async def test_requests_skip_failed_backend(town: Town) -> None:
    await town.wake(1)
    await route(town, held_ms=60_000)
    held = asyncio.create_task(ask(town, "held"))
    await town.until(0, lambda state: state.held == 1)
    await town.gate(0, Gate.FAILED, reason="no GPU fits")
    assert await held == 200, "also who was held"
    assert await ask_many(town, 20) == {200: 20}
    assert got(town) == [0, 21]
    found = await answered(town, 21)
    assert (found[BIG].sent, found[BIG].passed_on, found[BIG].errors) == (21, 21, 0)


async def test_requests_skip_backend_with_full_hold(town: Town) -> None:
    await town.wake(1)
    await town.gate(0, Gate.CLOSED, max_held=2)
    await route(town, held_ms=60_000)
    held = [asyncio.create_task(ask(town, f"held-{number}")) for number in range(2)]
    await town.until(0, lambda state: state.held == 2)
    assert await ask_many(town, 10) == {200: 10}
    await town.wake(0)
    assert await asyncio.gather(*held) == [200, 200]
    assert got(town) == [2, 10]


async def test_requests_skip_backend_with_full_queue(town: Town) -> None:
    await town.wake(1)
    await town.wake(0)
    await town.gate(0, Gate.OPEN, queue=0)
    await route(town)
    assert await ask_many(town, 5) == {200: 5}
    assert got(town) == [0, 5]


async def test_fallback_gets_request_if_route_has_no_backend(town: Town) -> None:
    await town.wake(1)
    await route(town, first=False)
    assert await ask(town, "r") == 200
    assert got(town) == [0, 1]
    assert (await answered(town, 1))[TINY].sent == 1


async def test_held_request_moves_to_fallback_if_model_is_removed(town: Town) -> None:
    await town.wake(1)
    await route(town, held_ms=60_000)
    held = asyncio.create_task(ask(town, "held"))
    await town.until(0, lambda state: state.held == 1)
    await town.gateway.unset_gate("s0")
    assert await held == 200
    assert got(town) == [0, 1]


async def test_client_gets_answer_of_last_fallback(town: Town) -> None:
    """Each backend receives the request once: a fallback that is also the first backend is no second try."""
    await town.gate(0, Gate.FAILED, reason="no GPU fits")
    await town.gate(1, Gate.FAILED, reason="the image cannot be pulled")
    shares = [Share("r:1", ("chat",), (way(town, 0),), fallback=(way(town, 0, 0), way(town, 1, 0)))]
    await town.router.set_routes(town.routes, shares)
    status, answer = await town.ask("r", {"model": "chat"})
    assert (status, answer["error"]["message"]) == (503, "the image cannot be pulled")
    found = await answered(town, 1)
    assert {name: (each.sent, each.passed_on, each.errors) for name, each in found.items()} == {
        BIG: (1, 1, 0),
        TINY: (1, 0, 1),
    }


@pytest.mark.parametrize("where", ["first", "last"])
async def test_fallback_gets_body_of_any_size_with_only_model_name_replaced(town: Town, where: str) -> None:
    await town.gateway.set_servers("s1", [town.serves[1].address])
    await town.gateway.set_gate("s1", Slot(service="service-1", gate=Gate.OPEN, epoch=2, models=(LONG,)))
    await town.until(1, lambda state: state.servers_up == 1)
    await town.gate(0, Gate.CLOSED)
    bodies = town.serves[1].bodies = {}
    ways = (way(town, 0),)
    shares = [Share("r", ("chat",), ways, fallback=(way(town, 1, HELD_MS, model=LONG),))]
    await town.router.set_routes(town.routes, shares)
    for size in (0, 28_000, 31_400, 33_000, 300_000, 2 * MIB):
        messages: dict[str, Any] = {"messages": [{"role": "user", "content": "chat" + "x" * size}]}
        named = {"model": "chat"}
        body = json.dumps(named | messages if where == "first" else messages | named).encode()
        assert (await town.ask(str(size), body))[0] == 200
        assert bodies.pop(str(size)) == body.replace(b'"model": "chat"', b'"model": "%b"' % LONG.encode())
    assert not town.serves[0].whole
    assert await town.bytes_here() == 0


async def test_moved_request_is_not_in_flight_at_first_backend(town: Town) -> None:
    """A service that sleeps stays idle, and may be replaced, while another one answers."""
    await town.wake(1)
    town.serves[1].hold_answers = True
    await route(town, held_ms=HELD_MS)
    requested = [asyncio.create_task(ask(town, f"r-{number}")) for number in range(3)]
    await town.until(1, lambda state: state.in_flight == 3)
    state = await town.until(0, lambda state: state.held == 0)
    assert (state.in_flight, state.servers_up) == (0, 0)
    town.serves[1].finish.set()
    assert await asyncio.gather(*requested) == [200] * 3
    assert sum((await town.until(0, lambda _: True)).answers.values()) == 0


async def test_key_is_forwarded_to_fallback_and_must_be_valid_for_both_backends(town: Town) -> None:
    await town.wake(1)
    await town.gate(0, Gate.CLOSED, keys=(api_key("both"), api_key("first")))
    await town.gate(1, Gate.OPEN, keys=(api_key("both"), api_key("second")))
    await route(town, held_ms=HELD_MS)
    expected = {"both": 200, "first": 401, "second": 401, "wrong": 401}
    assert {key: await ask(town, key, Authorization=f"Bearer {key}") for key in expected} == expected
    assert [serve.whole for serve in town.serves] == [{}, {"both": 1}]
    state = await town.until(0, lambda state: not state.held)
    assert state.ends == {"fell_back": 2, "unauthorized": 2}, "the fallback rejected one key"


async def test_client_headers_do_not_trigger_fallback(town: Town) -> None:
    await town.wake(1)
    await town.gate(0, Gate.CLOSED, hold_ms=500)
    reported = {"X-Daybreak-Next": "1: r:1 service-0/big", "X-Daybreak-Routed": "x"}
    await town.router.set_routes(town.routes, [Share("r:1", ("chat",), (way(town, 0),))])
    assert await ask(town, "r", **reported) == 503
    own = f"http://127.0.0.1:{town.gateway.config.first_port}/v1/chat/completions"
    async with town.clients.post(own, data=b'{"model": "big"}', headers=reported) as answer:
        assert answer.status == 503
    assert got(town) == [0, 0]
