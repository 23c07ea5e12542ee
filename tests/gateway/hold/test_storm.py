"""Steady load over kept-alive connections, while the gate closes and opens all the time."""

import asyncio
import json
import random

from aiohttp import web

from daybreak.gateway.hold.table import Gate
from story.load.storm import AT_ONCE, Storm
from tests.gateway.conftest import Bench
from tests.gateway.fake_serve import FakeServe

CLIENTS = 25
TURNS = 40


async def test_1000_requests_arrive_exactly_once_across_gate_changes(bench: Bench) -> None:
    await bench.wake()
    chance = random.Random(1)  # noqa: S311
    done = 0
    running = CLIENTS

    async def client(number: int) -> None:
        nonlocal done, running
        for turn in range(TURNS):
            name = f"c{number}-{turn}"
            body = b'{"messages": "' + b"x" * chance.randint(0, 40_000) + b'"}'
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
        observed = done + chance.randint(1, 80)
        await bench.until(lambda _, observed=observed: done >= observed or clients.done())  # type: ignore[misc]
    await clients
    state = await bench.until(lambda state: state.in_flight == 0)
    assert gates > 5
    assert (done, state.arrivals, state.held) == (1000, 1000, 0)
    assert state.ends == {"passed": 1000}
    assert len(bench.serve.observed) == bench.serve.observed.total() == bench.serve.whole.total() == 1000


class Completions(FakeServe):
    """A fake Serve that echoes prompts, as a model does with `echo`."""

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self.observed[request.headers["X-Request-Id"]] += 1
        requested = await request.json()
        choice = {"index": 0, "text": f"{requested['prompt']} and so on", "finish_reason": "stop"}
        whole = {"id": "1", "object": "text_completion", "created": 1, "model": "big", "choices": [choice]}
        if not requested.get("stream"):
            return web.json_response(whole)
        events = f"data: {json.dumps(whole)}\n\ndata: [DONE]\n\n"
        return web.Response(text=events, content_type="text/event-stream")


async def test_storm_client_loses_no_request_and_no_connection_at_closed_gate(bench: Bench) -> None:
    """The storm's requests keep their numbers, and those that lack their last byte have not arrived."""
    async with Completions() as bench.serve:
        await bench.wake()
        client = Storm(f"{bench.url}/v1", "big")
        client.wave("Awake", 2 * AT_ONCE)
        await client.calm()
        await bench.gate(Gate.CLOSED)
        client.poise(8)
        client.wave("Draining", AT_ONCE - 8)
        await bench.until(lambda state: state.held == AT_ONCE - 8)
        await client.let_go("Asleep", pause=0)
        await bench.until(lambda state: state.held == AT_ONCE)
        await bench.gate(Gate.OPEN)
        await client.calm()
        await client.close()
        tally = client.tally
        assert (tally.lost, tally.wrong, tally.answered, tally.sent) == ([], [], 3 * AT_ONCE, 3 * AT_ONCE)
        assert bench.serve.observed == {f"{client.name}-{number}": 1 for number in range(1, tally.sent + 1)}
        assert tally.connections == AT_ONCE
        assert tally.waves == [("Awake", 2 * AT_ONCE), ("Draining", AT_ONCE - 8), ("Asleep", 8)]
