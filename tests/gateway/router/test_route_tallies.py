"""Tallies of routes' backends, counted by real HAProxies: requests, answers, errors, times."""

import asyncio
import time
from collections.abc import Callable

from daybreak.gateway.hold.table import Gate
from daybreak.gateway.router.config import OWN_LUA
from daybreak.gateway.router.shares import Share
from daybreak.protocol.tallies import FIRST_MS, LAST, PER_DOUBLING, Tally, bound_ms
from tests.gateway.fake_serve import EVENT_SECONDS
from tests.gateway.router.test_shared_names import ask, ask_many, way
from tests.gateway.town import Town

BIG, TINY = "service-0/big", "service-1/tiny"


async def share(town: Town, first: int, second: int, since: str = "2026-01-01T00:00:00Z") -> None:
    """Have the name `chat` lead to both, counted from then."""
    ways = tuple(each for each in (way(town, 0, first), way(town, 1, second)) if each.weight)
    await town.router.set_routes(town.routes, [Share("r:1", ("chat",), ways, since=since)])


async def counted(town: Town, good: Callable[[dict[str, Tally]], bool]) -> dict[str, Tally]:
    """Wait until the ends of requests are counted as expected: a client sees them first."""
    async with asyncio.timeout(60):
        while not good(found := dict((await town.router.tallies())["r:1"].backends)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def test_requests_are_counted_per_backend_since_shares_were_set(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    await share(town, 3, 1)
    assert (await town.router.tallies())["r:1"].since == "2026-01-01T00:00:00Z"
    assert await ask_many(town, 400) == {200: 400}
    found = await counted(town, lambda got: sum(each.answered for each in got.values()) == 400)
    assert {name: (each.sent, each.answered, each.errors) for name, each in found.items()} == {
        BIG: (300, 300, 0),
        TINY: (100, 100, 0),
    }
    assert {name: (each.first.total, each.whole.total) for name, each in found.items()} == {
        BIG: (300, 300),
        TINY: (100, 100),
    }
    await share(town, 3, 1)
    assert await counted(town, lambda _: True) == found, "told again, it is counted on"
    await share(town, 1, 1, since="2026-01-01T00:00:01Z")
    assert (await town.router.tallies())["r:1"].backends == {}
    assert await ask_many(town, 10, name="after") == {200: 10}
    found = await counted(town, lambda got: sum(each.answered for each in got.values()) == 10)
    assert {name: each.sent for name, each in found.items()} == {BIG: 5, TINY: 5}


async def test_large_body_is_counted_in_tally(town: Town) -> None:
    """They pass through another HAProxy."""
    await town.wake(0)
    await share(town, 1, 0)
    late = b'{"messages": [{"role": "user", "content": "' + b"x" * 200_000 + b'"}], "model": "chat"}'
    assert (await town.ask("late", late))[0] == 200
    assert await ask(town, "early") == 200
    found = await counted(town, lambda got: got[BIG].answered == 2)
    assert (found[BIG].sent, found[BIG].first.total, found[BIG].whole.total) == (2, 2, 2)


async def test_tally_records_first_byte_and_end_of_stream(town: Town) -> None:
    await town.wake(0)
    await share(town, 1, 0)
    town.serves[0].events = 4
    observed: list[float] = []
    town.serves[0].finish.set()
    long = b'{"prompt": "' + b"x" * 200_000 + b'", "model": "chat", "stream": true}'
    for body in (b'{"model": "chat", "stream": true}', long):
        began = time.monotonic()
        async with town.clients.post(f"{town.url}/v1/completions", data=body) as answer:
            assert answer.status == 200
            await answer.content.readany()
            observed.append(1000 * (time.monotonic() - began))
            await answer.read()
    found = await counted(town, lambda got: got[BIG].answered == 2)
    first, whole = found[BIG].first.quantile_ms(1), found[BIG].whole.quantile_ms(1)
    assert first is not None
    assert whole is not None
    assert first / 1.2 <= max(10, *observed), "a client has it later"
    assert whole >= 1000 * 4 * EVENT_SECONDS


async def test_answer_5xx_counts_as_error_without_time(town: Town) -> None:
    await town.wake(0)
    await town.gate(1, Gate.FAILED, reason="no GPU fits")
    await share(town, 1, 1)
    assert await ask_many(town, 20) == {200: 10, 503: 10}
    found = await counted(town, lambda got: sum(each.answered for each in got.values()) == 20)
    assert (found[TINY].sent, found[TINY].errors, found[TINY].whole.total) == (10, 10, 0)
    assert (found[BIG].sent, found[BIG].errors, found[BIG].whole.total) == (10, 0, 10)


async def test_held_request_is_counted_without_time(town: Town) -> None:
    await share(town, 0, 1)
    held = asyncio.create_task(ask(town, "held"))
    late = b'{"messages": "' + b"x" * 200_000 + b'", "model": "chat"}'
    held_late = asyncio.create_task(town.ask("late", late))
    await town.until(1, lambda state: state.held == 2)
    await town.wake(1)
    assert await held == 200
    assert (await held_late)[0] == 200
    assert await ask(town, "awake") == 200
    found = await counted(town, lambda got: got[TINY].answered == 3)
    assert (found[TINY].errors, found[TINY].first.total, found[TINY].whole.total) == (0, 1, 1)
    bound = found[TINY].whole.quantile_ms(1)
    assert bound is not None
    assert bound < bound_ms(60)


async def test_answer_to_held_request_has_no_internal_headers(town: Town) -> None:
    own = f"http://127.0.0.1:{town.gateway.config.first_port + 1}/v1/chat/completions"
    late = b'{"messages": "' + b"x" * 200_000 + b'", "model": "tiny"}'

    async def observed(url: str, body: bytes) -> set[str]:
        async with town.clients.post(url, data=body) as answer:
            await answer.read()
            return {name.lower() for name in answer.headers}

    urls = [own, own, town.url + "/v1/chat/completions", town.url + "/v1/chat/completions"]
    bodies = [b'{"model": "tiny"}', late] * 2
    requested = [asyncio.create_task(observed(*each)) for each in zip(urls, bodies, strict=True)]
    await town.until(1, lambda state: state.held == 4)
    await town.wake(1)
    for names in await asyncio.gather(*requested):
        assert not {name for name in names if name.startswith("x-daybreak-")}


async def test_departed_client_does_not_count_as_error(town: Town) -> None:
    await town.wake(0)
    await share(town, 1, 0)
    town.serves[0].hold_answers = True
    requested = [asyncio.create_task(ask(town, f"r-{number}")) for number in range(5)]
    await town.until(0, lambda state: state.in_flight == 5)
    for each in requested:
        each.cancel()
    await asyncio.gather(*requested, return_exceptions=True)
    await town.until(0, lambda state: state.in_flight == 0)
    town.serves[0].hold_answers = False
    assert await ask(town, "stays") == 200
    found = await counted(town, lambda got: got[BIG].whole.total == 1)
    assert (found[BIG].sent, found[BIG].errors) == (6, 0)


def test_lua_and_python_use_same_tally_buckets() -> None:
    text = (OWN_LUA / "tally.lua").read_text()
    assert f"FIRST_MS, PER_DOUBLING, LAST = {FIRST_MS}, {PER_DOUBLING}, {LAST}\n" in text
