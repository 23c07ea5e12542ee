"""A request that a replica has not begun moves to another one; one that an engine has begun is not resent."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.gateway.hold.table import Choice, Gate, Policy, Slot
from daybreak_runtime.http.asgi import Receive, Scope, Send
from daybreak_runtime.lora.adapters import LOADING, Adapters
from daybreak_runtime.lora.http import why_missing
from tests.gateway.conftest import Bench
from tests.gateway.replica_front import ReplicaDoor
from tests.gateway.replicas.test_replicas import BIG

PATH = "/v1/chat/completions"
LOADING_ANSWER = why_missing(cast("Adapters", SimpleNamespace(missing=lambda _: (LOADING, ""))), "a") or (
    0,
    "",
)


class Scene:
    """A service with replicas, Serve's proxy behind them, and another client that uses the replicas too."""

    def __init__(self, bench: Bench, stack: AsyncExitStack) -> None:
        self.bench = bench
        self._stack = stack
        self.replicas: list[ReplicaDoor] = []
        self._others: list[asyncio.Task[None]] = []

    async def open(self, *replicas: ReplicaDoor, proxy: bool = False, **more: Any) -> None:
        """Program the gateway with these replicas, and wait until they are up."""
        self.replicas = [await self._stack.enter_async_context(replica) for replica in replicas]
        servers = [replica.address for replica in self.replicas]
        backup = [replace(self.bench.serve.address, backup=True)] if proxy else []
        await self.bench.gateway.set_servers("s0", [*servers, *backup])
        service = Slot("qwen", Gate.OPEN, 1, models=("big",), replicas_listen=True, **more)
        await self.bench.gateway.set_gate("s0", service)
        await self.bench.until(lambda state: state.servers_up == len(servers))

    async def fill(self, replica: ReplicaDoor, requests: int = 1) -> None:
        """Send requests past this gateway, as the other gateway does, that the engine does not answer yet."""
        replica.finish.clear()

        async def ask(number: int) -> None:
            url = f"http://{replica.address.text}{PATH}"
            headers = {"X-Request-Id": f"other-{number}"}
            async with self.bench.clients.post(url, data=BIG, headers=headers) as answer:
                await answer.read()

        self._others += [asyncio.create_task(ask(number)) for number in range(requests)]
        async with asyncio.timeout(20):
            while replica.door.in_progress < requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def begun(self, name: str) -> list[int]:
        """Return how often each replica's engine has begun a request."""
        return [replica.begun[name] for replica in self.replicas]


@pytest.fixture
async def scene(bench: Bench) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        made = Scene(bench, stack)
        yield made
        for replica in made.replicas:
            replica.finish.set()
        await asyncio.gather(*made._others, return_exceptions=True)


@pytest.mark.parametrize("choice", [None, Choice(Policy.SESSION, 100, 2), Choice(Policy.PREFIX, 100, 16)])
async def test_request_moves_to_other_replica_if_queue_is_full(scene: Scene, choice: Choice | None) -> None:
    full, free = ReplicaDoor(limit=1, most_waiting=0), ReplicaDoor()
    await scene.open(full, free, choice=choice, waits=choice is not None and choice.policy is Policy.PREFIX)
    await scene.fill(full)
    bodies = [json.dumps({"model": "big", "messages": [{"content": str(n)}]}).encode() for n in range(10)]
    for number, body in enumerate(bodies):
        status, _, answer = await scene.bench.ask(f"r{number}", body, **{"x-session-id": str(number)})
        assert (status, answer) == (200, {"id": f"r{number}"})
        assert scene.begun(f"r{number}") == [0, 1]
    state = await scene.bench.until(lambda state: not state.in_flight)
    assert (state.arrivals, state.answers["2xx"], state.answers["4xx"]) == (10, 10, 0)


async def test_request_returns_429_if_all_replica_queues_are_full(scene: Scene) -> None:
    await scene.open(*[ReplicaDoor(limit=1, most_waiting=0) for _ in range(2)])
    for replica in scene.replicas:
        await scene.fill(replica)
    status, headers, answer = await scene.bench.ask("r")
    assert (status, headers["Retry-After"]) == (429, "1")
    assert (answer["error"]["code"], answer["error"]["type"]) == ("queue_full", "rate_limit_error")
    assert scene.begun("r") == [0, 0]


@pytest.mark.parametrize("proxy", [False, True])
async def test_waiting_requests_move_to_other_server_if_engine_dies(scene: Scene, proxy: bool) -> None:
    """By another replica, or by Serve's proxy, which waits for the next one."""
    others = [] if proxy else [ReplicaDoor(limit=4)]
    await scene.open(ReplicaDoor(limit=1), *others, proxy=proxy)
    dying = scene.replicas[0]
    for other in scene.replicas[1:]:
        await scene.fill(other, 3)  # so that what comes goes to the one that dies
    await scene.fill(dying)
    waiting = [asyncio.create_task(scene.bench.ask(f"w{number}")) for number in range(20)]
    await scene.bench.until(lambda state: state.in_flight == 20)
    async with asyncio.timeout(20):
        while dying.door.admission.waiting < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for other in scene.replicas[1:]:
        other.finish.set()
    await dying.die()
    assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 20
    for number in range(20):
        name = f"w{number}"
        assert sum(scene.begun(name)) + scene.bench.serve.observed[name] == 1


async def test_request_to_dead_engine_is_answered_by_other_replica(scene: Scene) -> None:
    await scene.open(ReplicaDoor(), ReplicaDoor())
    scene.replicas[0].dead = True
    for number in range(6):
        assert (await scene.bench.ask(f"r{number}"))[0] == 200
        assert scene.begun(f"r{number}") == [0, 1]


class Loading(ReplicaDoor):
    """A replica in which an adapter is still being loaded: lora/http.py has vLLM say so before it begins."""

    async def _engine(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, message = LOADING_ANSWER
        error = {"message": message, "type": "as vLLM names the status", "param": None, "code": status}
        body = json.dumps({"error": error}).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body[:9], "more_body": True})
        await send({"type": "http.response.body", "body": body[9:]})


async def test_request_moves_to_other_replica_while_adapter_is_loading(scene: Scene) -> None:
    await scene.open(Loading(), ReplicaDoor())
    for number in range(4):
        assert (await scene.bench.ask(f"r{number}"))[0] == 200
        assert scene.begun(f"r{number}") == [0, 1]


async def test_request_returns_503_if_all_replicas_are_loading_adapter(scene: Scene) -> None:
    await scene.open(Loading(), Loading())
    status, headers, answer = await scene.bench.ask("r")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert answer["error"] == {
        "message": LOADING_ANSWER[1],
        "type": "server_error",
        "param": None,
        "code": "not_ready",
    }


async def test_stopping_replica_loses_no_request(scene: Scene) -> None:
    """It serves on while it says that it stops, and closes its port when the gateway has seen it."""
    await scene.open(ReplicaDoor(), ReplicaDoor())
    stopping = scene.replicas[0]
    names: list[str] = []

    async def client(number: int) -> None:
        while not stopped.is_set():
            name = f"c{number}-{len(names)}"
            names.append(name)
            assert (await scene.bench.ask(name))[0] == 200

    stopped = asyncio.Event()
    clients = [asyncio.create_task(client(number)) for number in range(4)]
    await asyncio.sleep(0.3)
    stopping.door.leave()
    await scene.bench.until(lambda state: state.servers_up == 1)
    await stopping.close()
    await asyncio.sleep(0.3)
    stopped.set()
    await asyncio.gather(*clients)
    assert stopping.begun
    assert {sum(scene.begun(name)) for name in names} == {1}


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
async def test_error_answer_of_engine_is_not_retried(scene: Scene, status: int) -> None:
    await scene.open(*[ReplicaDoor(status=status) for _ in range(2)])
    assert (await scene.bench.ask("r"))[0] == status
    assert sorted(scene.begun("r")) == [0, 1]


async def test_large_request_returns_429_or_503_if_only_replica_rejects(scene: Scene) -> None:
    await scene.open(ReplicaDoor(limit=1, most_waiting=0))
    await scene.fill(scene.replicas[0])
    status, headers, answer = await scene.bench.ask("r", BIG + b" " * 100_000)
    assert (status, headers["Retry-After"], answer["error"]["code"]) == (429, "1", "queue_full")
    scene.replicas[0].dead = True
    status, headers, answer = await scene.bench.ask("s", BIG + b" " * 100_000)
    assert (status, headers["Retry-After"], answer["error"]["code"]) == (503, "1", "replica_gone")
    assert answer["error"]["type"] == "server_error"
