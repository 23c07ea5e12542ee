"""Steady load over kept-alive connections, while the gate closes and opens all the time."""

import asyncio
import random

from daybreak.gateway.table import Gate
from tests.gateway.conftest import Bench

CLIENTS = 25
TURNS = 40


async def test_1000_requests_across_many_gates_none_lost_none_doubled(bench: Bench) -> None:
    await bench.wake()
    chance = random.Random(1)  # noqa: S311
    done = 0
    running = CLIENTS

    async def client(number: int) -> None:
        nonlocal done, running
        for turn in range(TURNS):
            name = f"c{number}-{turn}"
            body = b'{"prompt": "' + b"x" * chance.randint(0, 40_000) + b'"}'
            status, _, answer = await bench.ask(name, body)
            assert (status, answer["id"], answer["bytes"]) == (200, name, len(body))
            done += 1
            await asyncio.sleep(chance.random() * 0.01)
        running -= 1

    clients = asyncio.gather(*(client(number) for number in range(CLIENTS)))
    gates = 0
    while not clients.done():
        await bench.gate(Gate.CLOSED)
        enough = chance.randint(1, CLIENTS)
        # Not more than there are left: the others have asked all that they wanted.
        await bench.until(lambda state, enough=enough: state.held >= min(enough, running))  # type: ignore[misc]
        await bench.gate(Gate.OPEN)
        gates += 1
        seen = done + chance.randint(1, 80)
        await bench.until(lambda _, seen=seen: done >= seen or clients.done())  # type: ignore[misc]
    await clients
    state = await bench.until(lambda state: state.in_flight == 0)
    assert gates > 5
    assert (done, state.arrivals, state.held) == (1000, 1000, 0)
    assert state.ends == {"passed": 1000}
    assert len(bench.serve.seen) == bench.serve.seen.total() == bench.serve.whole.total() == 1000
