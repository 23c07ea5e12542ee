"""Copies of a route's requests for a model that is tried out, with real HAProxies."""

import asyncio
import hashlib
import json
from dataclasses import replace

import aiohttp
import pytest

from daybreak.gateway.haproxy.trust import ATTEMPTS
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.shares import Share
from tests.gateway.router.test_route_tallies import BIG, TINY, counted
from tests.gateway.router.test_shared_names import ask, ask_many, got, way
from tests.gateway.town import MIB, Town


async def mirror(town: Town, percent: int = 100) -> None:
    """Have the name `chat` lead to the first service, with copies for the second one."""
    await town.wake(0)
    copies = replace(way(town, 1), weight=percent)
    await town.router.set_routes(town.routes, [Share("r:1", ("chat",), (way(town, 0),), mirror=copies)])


async def copied(town: Town, number: int) -> None:
    """Wait until that number of copies has arrived."""
    async with asyncio.timeout(30):
        while town.serves[1].whole.total() < number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_copy_names_mirror_model_and_client_does_not_wait_for_copy(town: Town) -> None:
    await town.wake(1)
    await mirror(town)
    bodies = town.serves[1].bodies = {}
    town.serves[1].hold_answers = True
    body = b'{"n": 1, "model": "chat", "messages": [{"role": "user", "content": "chat"}]}'
    assert (await town.ask("one", body))[0] == 200
    await town.until(1, lambda state: state.in_flight == 1)
    town.serves[1].finish.set()
    await copied(town, 1)
    assert list(bodies.values()) == [body.replace(b'"model": "chat"', b'"model": "tiny"')]
    assert got(town)[0] == 1
    await town.until(1, lambda state: state.in_flight == 0)
    found = await counted(town, lambda found: found[BIG].answered == 1)
    assert (found[TINY].sent, found[TINY].answered, found[TINY].errors) == (1, 0, 0)


async def test_mirror_copies_configured_percentage_of_requests(town: Town) -> None:
    await town.wake(1)
    await mirror(town, 25)
    assert await ask_many(town, 100, at_once=4) == {200: 100}
    await copied(town, 25)
    await town.until(1, lambda state: state.in_flight == 0)
    assert got(town) == [100, 25]


async def test_large_body_is_not_copied(town: Town) -> None:
    await town.wake(1)
    await mirror(town)
    for size in (40_000, MIB):
        long = json.dumps({"model": "chat", "user": "x" * size}).encode()
        assert (await town.ask(str(size), long))[0] == 200
    assert await ask(town, "short") == 200
    await copied(town, 1)
    assert got(town) == [3, 1]


@pytest.mark.parametrize("gate", [Gate.FAILED, Gate.CLOSED])
async def test_rejected_or_held_copy_does_not_affect_client(town: Town, gate: Gate) -> None:
    await town.gateway.set_gate(
        "s1", Slot(service="service-1", gate=gate, epoch=2, models=("tiny",), hold_ms=500)
    )
    await mirror(town)
    assert await ask_many(town, 10) == {200: 10}
    await town.until(1, lambda state: sum(state.ends.values()) == 10)
    assert got(town) == [10, 0]


async def test_at_most_32_copies_are_in_flight(town: Town) -> None:
    await town.wake(1)
    town.serves[1].hold_answers = True
    await mirror(town)
    assert await ask_many(town, 100) == {200: 100}
    await town.until(1, lambda state: state.in_flight == 32)
    town.serves[1].finish.set()
    await town.until(1, lambda state: state.in_flight == 0)
    assert got(town) == [100, 32]


async def test_copy_with_wrong_key_does_not_count_as_attempt_of_client(town: Town) -> None:
    """Otherwise a client with many copies would be locked out as if it guessed keys."""
    key = ApiKey("team", hashlib.sha256(b"right").hexdigest())
    await town.wake(1)
    await town.gate(1, Gate.OPEN, keys=(key,))
    await mirror(town)
    own = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    url, body = f"{town.url}/v1/chat/completions", b'{"model": "%b"}'
    async with aiohttp.ClientSession(connector=own) as client:
        for _ in range(ATTEMPTS + 5):
            headers = {"Authorization": "Bearer other"}
            async with client.post(url, data=body % b"chat", headers=headers) as answer:
                assert answer.status == 200
        await counted(town, lambda found: found[TINY].sent == ATTEMPTS + 5)
        headers = {"Authorization": "Bearer right"}
        async with client.post(url, data=body % b"tiny", headers=headers) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"Daybreak-Health-Check": "1"}, id="header"),
        pytest.param({"User-Agent": "litellm-internal-health-check/1.0"}, id="user-agent"),
    ],
)
async def test_copy_of_a_health_check_is_no_activity(town: Town, header: dict[str, str]) -> None:
    checked = Slot(
        service="service-1",
        gate=Gate.CLOSED,
        epoch=2,
        models=("tiny",),
        probes=("agent/litellm-internal-health-check",),
    )
    await town.gateway.set_gate("s1", checked)
    await mirror(town)
    assert (await town.ask("one", b'{"model": "chat"}', **header))[0] == 200
    state = await town.until(1, lambda state: bool(state.ends))
    assert (state.ends, state.arrivals, state.held) == ({"health_check": 1}, 0, 0)
