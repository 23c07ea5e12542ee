"""The gateway sends requests to replicas' direct ports; Serve's proxy is the backup for the rest."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot, SlotState
from tests.gateway.conftest import Bench
from tests.gateway.fake_serve import FakeServe
from tests.gateway.guard.test_keys import KEYS

BIG, SMALL = b'{"model": "big"}', b'{"model": "org/small"}'
ADAPTER = b'{"model": "polite"}'


class Replicas:
    """A service whose replicas listen, in addition to the bench's fake Serve proxy."""

    def __init__(self, bench: Bench, replicas: list[FakeServe]) -> None:
        self.bench = bench
        self.replicas = replicas

    @property
    def proxy(self) -> Server:
        """Return the Serve proxy, as a backup server."""
        return replace(self.bench.serve.address, backup=True)

    async def gate(self, gate: Gate = Gate.OPEN, **more: Any) -> None:
        """Set the gate of slot 0."""
        self.bench.epoch += 1
        settings: dict[str, Any] = {
            "models": ("big", "org/small", "polite"),
            "adapters": ("polite",),
            "replicas_listen": True,
            **more,
        }
        slot = Slot(service="qwen", gate=gate, epoch=self.bench.epoch, **settings)
        await self.bench.gateway.set_gate("s0", slot)

    async def servers(self, *replicas: FakeServe, limit: int = 0) -> None:
        """Set the replicas, in addition to the proxy."""
        own = [replace(replica.address, max_connections=limit) for replica in replicas]
        await self.bench.gateway.set_servers("s0", [*own, self.proxy])
        await self.bench.until(lambda state: state.servers_up == max(1, len(own)))

    async def until_up(self, replica: FakeServe, backend: str = "s0") -> None:
        """Wait until HAProxy has found a replica well."""
        api = self.bench.gateway._api
        async with asyncio.timeout(60):
            while True:
                stat = await api.command(f"show servers state {backend}")
                rows = [row.split() for row in stat.splitlines() if f" {replica.address.name} " in row]
                if rows and rows[0][5] == "2":
                    return
                await asyncio.sleep(0.02)

    async def statuses(self, *bodies: bytes, path: str = "/v1/chat/completions") -> list[int]:
        """Ask with each body, one after the other."""
        found = []
        for number, body in enumerate(bodies):
            status, _, _ = await self.bench.ask(f"{path}-{number}", body, path)
            found.append(status)
        return found


@pytest.fixture
async def scene(bench: Bench) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        yield Replicas(bench, [await stack.enter_async_context(FakeServe()) for _ in range(2)])


async def test_requests_go_to_replicas_and_never_to_the_proxy(scene: Replicas) -> None:
    await scene.gate()
    await scene.servers(*scene.replicas)
    assert await scene.statuses(*[BIG] * 10) == [200] * 10
    assert [replica.observed.total() for replica in scene.replicas] == [5, 5]
    assert not scene.bench.serve.observed
    state = await scene.bench.until(lambda state: not state.in_flight)
    assert (state.past_lua, state.answers["2xx"], state.answers["5xx"]) == (10, 10, 0)


async def test_serve_proxy_gets_requests_while_no_replica_is_up(scene: Replicas) -> None:
    first, _ = scene.replicas
    await scene.gate()
    await scene.servers()
    assert await scene.statuses(BIG) == [200]
    assert scene.bench.serve.observed.total() == 1
    await scene.servers(first)
    await scene.until_up(first)
    assert await scene.statuses(BIG) == [200]
    assert (first.observed.total(), scene.bench.serve.observed.total()) == (1, 1)


async def test_no_request_is_lost_if_replicas_disappear(scene: Replicas) -> None:
    """If the replica's port refuses, the request goes to another one or the proxy: none was sent before."""
    first, second = scene.replicas
    await scene.gate()
    await scene.servers(first, second)
    await scene.until_up(first)
    await scene.until_up(second)
    await first._runner.cleanup()
    assert await scene.statuses(*[BIG] * 20) == [200] * 20
    await second._runner.cleanup()
    assert await scene.statuses(*[BIG] * 20, path="/v1/embeddings") == [200] * 20
    assert set((first.observed + second.observed + scene.bench.serve.observed).values()) == {1}
    assert scene.bench.serve.observed.total() == 20


async def test_replica_gets_no_more_requests_than_its_limit(scene: Replicas) -> None:
    first, _ = scene.replicas
    await scene.gate()
    await scene.servers(first, limit=2)
    await scene.until_up(first)
    first.hold_answers = True
    asking = [asyncio.create_task(scene.bench.ask(f"r{number}", BIG)) for number in range(5)]
    await scene.bench.until(lambda state: state.in_flight == 5)
    await asyncio.sleep(0.3)
    assert first.observed.total() == 2
    # A change of the limit needs no new server: streams continue.
    await scene.servers(first, limit=4)
    first.finish.set()
    assert [status for status, _, _ in await asyncio.gather(*asking)] == [200] * 5
    assert (first.observed.total(), scene.bench.serve.observed.total()) == (5, 0)


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/responses", BIG), ("/v1/messages", BIG), ("/rerank", BIG), ("/v1/chat/completions", ADAPTER)],
)
async def test_request_unsupported_by_proxy_is_held_until_replica_is_up(
    scene: Replicas, path: str, body: bytes
) -> None:
    first, _ = scene.replicas
    await scene.gate()
    await scene.servers()
    asking = asyncio.create_task(scene.bench.ask("one", body, path))
    await scene.bench.until(lambda state: state.held == 1)
    await scene.servers(first)
    await scene.until_up(first)
    assert (await asking)[0] == 200
    assert await scene.statuses(body, path=path) == [200]
    assert (first.observed.total(), scene.bench.serve.observed.total()) == (2, 0)
    assert (await scene.bench.state()).past_lua == 1, "once a replica is up Lua is not asked"


async def test_replica_only_path_returns_404_without_direct_ingress(scene: Replicas) -> None:
    await scene.gate(replicas_listen=False)
    await scene.bench.gateway.set_servers("s0", [scene.bench.serve.address])
    await scene.bench.until(lambda state: state.servers_up == 1)
    status, _, body = await scene.bench.ask("one", BIG, "/v1/responses")
    assert (status, "directIngress" in body["error"]["message"]) == (404, True)
    assert not scene.bench.serve.observed


async def test_stored_response_returns_404_without_wake(scene: Replicas) -> None:
    await scene.gate(Gate.CLOSED)
    for method in ("get", "delete"):
        async with scene.bench.clients.request(method, f"{scene.bench.url}/v1/responses/resp_1") as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (404, "response_not_found")
    assert (await scene.bench.state()).arrivals == 0, "it wakes nothing"


async def test_x_api_key_header_is_accepted_as_key_and_removed(scene: Replicas) -> None:
    first, _ = scene.replicas
    await scene.gate(keys=KEYS)
    await scene.servers(first)
    await scene.until_up(first)
    status, _, _ = await scene.bench.ask("one", BIG, "/v1/messages", **{"x-api-key": "sk-one"})
    assert (status, "x-api-key" in first.headers) == (200, False)
    assert (await scene.bench.ask("two", BIG, "/v1/messages", **{"x-api-key": "wrong"}))[0] == 401


class TestSeveralModels:
    """Each model has a separate backend, which the body's `model` chooses."""

    async def open(self, scene: Replicas, gate: Gate = Gate.OPEN) -> tuple[FakeServe, FakeServe]:
        big, small = scene.replicas
        await scene.bench.gateway.set_servers("s0", [scene.bench.serve.address])
        await scene.bench.gateway.set_servers("m0", [big.address, scene.proxy])
        await scene.bench.gateway.set_servers("m1", [small.address, scene.proxy])
        await self.gates(scene, gate)
        for number, replica in enumerate(scene.replicas):
            await scene.until_up(replica, f"m{number}")
        await scene.bench.until(lambda state: state.servers_up == 1)
        return big, small

    async def gates(self, scene: Replicas, gate: Gate) -> None:
        """Set the gates of both models and of the front."""
        more: dict[str, Any] = {"replicas_listen": True, "front": False}
        more["port"] = scene.bench.gateway.config.first_port
        big = Slot("qwen", gate, 1, "big", models=("big", "polite"), adapters=("polite",), **more)
        await scene.bench.gateway.set_gate("m0", big)
        small = Slot("qwen", gate, 1, "org/small", models=("org/small",), **more)
        await scene.bench.gateway.set_gate("m1", small)
        await scene.gate(gate, models=(), adapters=(), listed=("big", "org/small", "polite"), waits=True)

    async def states(self, scene: Replicas, good: Callable[..., bool]) -> list[SlotState]:
        """Return the states of the front and of both models, once they match."""
        async with asyncio.timeout(60):
            while True:
                slots = (await scene.bench.gateway.snapshot()).slots
                states = [slots[name] for name in ("s0", "m0", "m1")]
                if good(*states):
                    return states
                await asyncio.sleep(0.02)

    async def test_request_goes_to_replica_of_its_model(self, scene: Replicas) -> None:
        big, small = await self.open(scene)
        assert await scene.statuses(*[BIG, SMALL, SMALL, ADAPTER]) == [200] * 4
        assert (big.observed.total(), small.observed.total(), scene.bench.serve.observed.total()) == (2, 2, 0)
        states = await self.states(scene, lambda *all_of: not any(state.in_flight for state in all_of))
        assert [(state.arrivals, state.past_lua, state.ends) for state in states] == [
            (0, 0, {}),
            (2, 2, {"passed": 2}),
            (2, 2, {"passed": 2}),
        ]

    @pytest.mark.parametrize("chunked", [False, True])
    async def test_large_body_goes_to_replica_of_its_model(self, scene: Replicas, chunked: bool) -> None:
        big, small = await self.open(scene)
        body = json.dumps({"model": "org/small", "messages": [{"content": "x" * 200_000}]}).encode()

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(body), 5000):
                yield body[at : at + 5000]

        status, _, answer = await scene.bench.ask("large", pieces() if chunked else body)
        assert (status, answer["bytes"]) == (200, len(body))
        assert (big.observed.total(), small.observed.total(), scene.bench.serve.observed.total()) == (0, 1, 0)

    async def test_request_with_late_model_name_goes_to_serve_proxy(self, scene: Replicas) -> None:
        await self.open(scene)
        body = json.dumps({"messages": [{"content": "x" * 200_000}], "model": "org/small"}).encode()
        assert (await scene.bench.ask("late", body))[0] == 200
        assert scene.bench.serve.observed == {"late": 1}

    async def test_unknown_model_returns_404_and_reaches_no_server(self, scene: Replicas) -> None:
        big, small = await self.open(scene)
        status, _, answer = await scene.bench.ask("none", b'{"model": "none"}')
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        assert not (big.observed + small.observed + scene.bench.serve.observed)

    async def test_held_requests_count_at_gate_of_their_model_and_reach_its_replica(
        self, scene: Replicas
    ) -> None:
        big, small = await self.open(scene, Gate.CLOSED)
        bodies = [BIG, SMALL, SMALL, ADAPTER]
        asking = [asyncio.create_task(scene.bench.ask(f"r{n}", body)) for n, body in enumerate(bodies)]
        states = await self.states(scene, lambda *all_of: sum(state.held for state in all_of) == 4)
        assert [(state.arrivals, state.held, state.in_flight) for state in states] == [
            (0, 0, 0),
            (2, 2, 0),
            (2, 2, 0),
        ]
        await self.gates(scene, Gate.OPEN)
        assert [status for status, _, _ in await asyncio.gather(*asking)] == [200] * 4
        assert (dict(big.observed), dict(small.observed)) == ({"r0": 1, "r3": 1}, {"r1": 1, "r2": 1})
        states = await self.states(scene, lambda *all_of: not any(state.in_flight for state in all_of))
        assert [state.arrivals for state in states] == [0, 2, 2]

    async def test_removed_model_is_counted_until_its_last_request_ends(self, scene: Replicas) -> None:
        _, small = await self.open(scene)
        small.hold_answers = True
        asking = asyncio.create_task(scene.bench.ask("slow", SMALL))
        await self.states(scene, lambda *all_of: all_of[2].in_flight == 1)
        await scene.bench.gateway.remove_gate("m1")
        assert not await scene.bench.gateway.empty("m1")
        await asyncio.sleep(0.7)  # longer than the pause between two looks at who is in flight
        states = await self.states(scene, lambda *_: True)
        assert [state.in_flight for state in states] == [0, 0, 1]
        small.finish.set()
        assert (await asking)[0] == 200
        await self.states(scene, lambda *all_of: all_of[2].in_flight == 0)
        async with asyncio.timeout(30):
            while not await scene.bench.gateway.empty("m1"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await scene.bench.gateway.unset_gate("m1")
        # Its next owner begins at nought.
        await self.gates(scene, Gate.OPEN)
        states = await self.states(scene, lambda *_: True)
        assert [(state.arrivals, state.answers["2xx"]) for state in states] == [(0, 0)] * 3
