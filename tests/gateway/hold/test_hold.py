"""Requests are held while the gate is closed, and nothing of them is lost."""

import asyncio

import psutil
import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench


async def test_request_is_held_until_gate_opens(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    asking = asyncio.create_task(bench.ask("one"))
    held = await bench.until(lambda state: state.held == 1)
    assert (held.arrivals, held.in_flight, held.epoch) == (1, 0, 1)
    assert not bench.serve.observed
    await bench.wake()
    status, _, body = await asking
    assert (status, body["id"]) == (200, "one")
    ended = await bench.state()
    assert (ended.held, ended.ends) == (0, {"passed": 1})


async def test_request_is_held_at_open_gate_without_server(bench: Bench) -> None:
    await bench.gate(Gate.OPEN)
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    await bench.gateway.set_servers("s0", [bench.serve.address])
    assert (await asking)[0] == 200


async def test_lua_memory_of_held_requests_does_not_grow_over_time(bench: Bench) -> None:
    """HAProxy's Lua has 64 MiB; if they are used up, held requests receive 500."""

    async def kept() -> int:
        return int((await bench.gateway._api.json("daybreak memory"))["lua_bytes"])

    await bench.gate(Gate.CLOSED)
    asking = [asyncio.create_task(bench.ask(f"r{number}")) for number in range(120)]
    await bench.until(lambda state: state.held == 120)
    before = await kept()
    await asyncio.sleep(4)
    assert await kept() - before < 50_000
    await bench.wake()
    assert {status for status, _, _ in await asyncio.gather(*asking)} == {200}


async def test_burst_of_1000_held_requests_is_released_gradually_and_once(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, max_held=1250)  # one client leaves room for others
    names = [f"r{number}" for number in range(1000)]
    asking = [asyncio.create_task(bench.ask(name)) for name in names]
    await bench.until(lambda state: state.held == 1000)
    begun = asyncio.get_running_loop().time()
    await bench.wake()
    answers = await asyncio.gather(*asking)
    took = asyncio.get_running_loop().time() - begun
    assert [(status, body["id"]) for status, _, body in answers] == [(200, name) for name in names]
    assert bench.serve.observed == dict.fromkeys(names, 1)
    # 1,000 at 250 a second, less the first 20 that go at once.
    assert took > 3.5


async def test_500_held_bodies_of_1_mb_need_little_memory(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    process = psutil.Process(bench.gateway.pid)
    before = process.memory_info().rss
    body = b"x" * 10**6
    asking = [asyncio.create_task(bench.ask(f"r{number}", body)) for number in range(500)]
    await bench.until(lambda state: state.held == 500)
    assert process.memory_info().rss - before < 48 * 2**20
    await bench.wake()
    answers = await asyncio.gather(*asking)
    assert {(status, answer["bytes"]) for status, _, answer in answers} == {(200, 10**6)}


@pytest.mark.parametrize("kept_alive", [False, True])
async def test_held_request_of_departed_client_never_reaches_model(bench: Bench, kept_alive: bool) -> None:
    if kept_alive:  # HAProxy itself does not notice a client that leaves a connection which was there before
        await bench.wake()
        bench.serve.hold_answers = True
        first = [asyncio.create_task(bench.ask(f"first{number}")) for number in range(25)]
        await bench.until(lambda state: state.in_flight == 25)
        bench.serve.finish.set()
        await asyncio.gather(*first)
        bench.serve.observed.clear()
    await bench.gate(Gate.CLOSED)
    asking = {f"r{number}": asyncio.create_task(bench.ask(f"r{number}")) for number in range(25)}
    await bench.until(lambda state: state.held == 25)
    for number in range(20):
        asking.pop(f"r{number}").cancel()
    left = await bench.until(lambda state: state.held == 5)
    assert left.ends["gone"] == 20
    await bench.wake()
    await asyncio.gather(*asking.values())
    assert bench.serve.observed == dict.fromkeys(asking, 1)


async def test_state_reports_hold_time_of_oldest_request(bench: Bench) -> None:
    clock = asyncio.get_running_loop().time
    await bench.gate(Gate.CLOSED)
    assert (await bench.state()).held_ms == 0
    oldest = asyncio.create_task(bench.ask("oldest"))
    await bench.until(lambda state: state.held_ms >= 300)
    began = clock()
    asking = [asyncio.create_task(bench.ask(name)) for name in ("middle", "latest")]
    held = await bench.until(lambda state: state.held == 3)
    assert held.held_ms >= 300
    asking[0].cancel()
    later = await bench.until(lambda state: state.held == 2)
    assert later.held_ms >= held.held_ms, "one has left that came later"
    oldest.cancel()
    left = await bench.until(lambda state: state.held == 1)
    assert 0 <= left.held_ms <= 1000 * (clock() - began) + 50
    await bench.wake()
    assert (await asking[1])[0] == 200
    assert (await bench.state()).held_ms == 0


async def test_arrivals_while_the_gate_closes_are_in_flight_or_held(bench: Bench) -> None:
    await bench.wake()
    bench.serve.hold_answers = True
    asking = [asyncio.create_task(bench.ask(f"r{number}")) for number in range(40)]
    await bench.until(lambda state: state.arrivals > 0)
    await bench.gate(Gate.CLOSED)
    asking += [asyncio.create_task(bench.ask(f"s{number}")) for number in range(40)]
    state = await bench.until(lambda state: state.arrivals == 80)
    assert state.in_flight + state.held == 80
    assert state.in_flight == state.ends["passed"]
    assert state.held >= 40
    bench.serve.finish.set()
    await bench.until(lambda state: state.in_flight == 0)
    await bench.wake()
    assert {status for status, _, _ in await asyncio.gather(*asking)} == {200}
    assert len(bench.serve.observed) == bench.serve.observed.total() == 80


async def test_kept_alive_connections_lose_no_request_across_gate_changes(bench: Bench) -> None:
    await bench.wake()
    desired = finished = 0

    async def client(number: int) -> None:
        nonlocal desired, finished
        for turn in range(20):
            name = f"c{number}-{turn}"
            status, _, body = await bench.ask(name)
            assert (status, body["id"]) == (200, name)
            desired += 1
        finished += 1

    clients = asyncio.gather(*(client(number) for number in range(10)))
    for _ in range(5):
        await bench.gate(Gate.CLOSED)
        # They are not equally quick: some may have asked all that they had to.
        await bench.until(lambda state: state.held == 10 - finished or clients.done())
        await bench.gate(Gate.OPEN)
        await bench.until(lambda state: state.held == 0)
    await clients
    assert desired == len(bench.serve.observed) == bench.serve.observed.total() == 200
