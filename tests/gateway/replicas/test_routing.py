"""Choice of a request's replica: `models[].routing` when the gateway addresses replicas directly."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.gateway.desired.gates import DesiredGate, DesiredService, Ports, desired_state
from daybreak.gateway.hold.table import Policy
from tests.gateway.conftest import Bench, running
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports
from tests.gateway.replicas.test_replicas import BIG

REPLICAS = 4
SESSIONS = [f"session-{number}" for number in range(23)]


class Town:
    """One service with several replicas, as the gateway reads it from the cluster."""

    def __init__(self, bench: Bench, replicas: list[FakeServe]) -> None:
        self.bench = bench
        self.replicas = {replica.address.host: replica for replica in replicas}
        self.port = replicas[0].address.port
        self.epoch = 0

    def desired(self, hosts: list[str], routing: dict[str, Any] | None, limit: int = 256) -> DesiredGate:
        """Return the gateway's gate for the LLMService and its pods."""
        self.epoch += 1
        model: dict[str, Any] = {"name": "big", "serve": {"maxOngoingRequests": limit}}
        if routing is not None:
            model["routing"] = routing
        gate = {"port": 20000, "backends": [{"cluster": "c"}], "models": [open_gate("big", self.epoch)]}
        manifest = {"metadata": {"name": "qwen"}, "spec": {"models": [model]}, "status": {"gate": gate}}
        found = desired_state(manifest, [worker(host) for host in hosts], Ports(replica=self.port))
        assert found is not None
        return alone(found)

    async def open(
        self, routing: dict[str, Any] | None, *, limit: int = 256, replicas: int = REPLICAS
    ) -> None:
        """Program the service with that number of its replicas, and wait until they are up."""
        claim = self.desired(sorted(self.replicas)[:replicas], routing, limit)
        await self.bench.gateway.set_servers("s0", claim.servers)
        await self.bench.gateway.set_gate("s0", claim.slot)
        await self.bench.until(lambda state: state.servers_up == replicas)

    async def ask(
        self, session: str | None = None, body: bytes = BIG, path: str = "/v1/chat/completions"
    ) -> str:
        """Send one request. Returns the replica that answered."""
        headers = {"X-Request-Id": "r"} | ({"x-session-id": session} if session else {})
        before = self.totals()
        async with self.bench.clients.post(self.bench.url + path, data=body, headers=headers) as answer:
            await answer.read()
        assert answer.status == 200
        (host,) = (self.totals() - before).keys()
        return host

    async def homes(self) -> dict[str, str]:
        """Return the replica of each session."""
        return {session: await self.ask(session) for session in SESSIONS}

    def totals(self) -> Counter[str]:
        """Return the requests that each replica has had."""
        return Counter({host: replica.observed.total() for host, replica in self.replicas.items()})

    @asynccontextmanager
    async def busy(self, session: str, requests: int, body: bytes = BIG) -> AsyncIterator[Counter[str]]:
        """So many requests of a session in progress, and the replicas that have them."""
        before = self.totals()
        for replica in self.replicas.values():
            replica.finish.clear()
            replica.hold_answers = True
        asking = []
        for number in range(requests):
            asking.append(
                asyncio.create_task(self.bench.ask(f"b{number}", body, **{"x-session-id": session}))
            )
            async with asyncio.timeout(20):
                while (self.totals() - before).total() <= number:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        for replica in self.replicas.values():
            replica.hold_answers = False
        yield self.totals() - before
        for replica in self.replicas.values():
            replica.finish.set()
        assert {status for status, _, _ in await asyncio.gather(*asking)} == {200}


def open_gate(model: str, epoch: int, state: str = "Open") -> dict[str, Any]:
    """Return a model's entry in the status."""
    return {"name": model, "state": state, "epoch": epoch, "holdSeconds": 300}


def alone(found: DesiredService) -> DesiredGate:
    """Return the one gate of a service, in the service's own backend."""
    (gate,) = found.gates
    prefix = gate.slot.choice is not None and gate.slot.choice.policy is Policy.PREFIX
    return replace(gate, slot=replace(gate.slot, port=0, front=True, waits=prefix))


def worker(host: str) -> dict[str, Any]:
    """Return a worker pod."""
    labels = {
        "ray.io/cluster": "c",
        "ray.io/node-type": "worker",
        "daybreak.dev/model": names.worker_group("big"),
    }
    return {"metadata": {"labels": labels}, "status": {"podIP": host, "phase": "Running"}}


def head(host: str) -> dict[str, Any]:
    """Return a head pod."""
    labels = {"ray.io/cluster": "c", "ray.io/node-type": "head"}
    return {"metadata": {"labels": labels}, "status": {"podIP": host, "phase": "Running"}}


async def until_servers_up(bench: Bench, backend: str, count: int) -> None:
    """Wait until `count` replicas have passed a check, without the servers for the hold and the router."""
    async with asyncio.timeout(60):
        while True:
            stat = await bench.gateway._api.command(f"show servers state {backend}")
            rows = [line.split() for line in stat.splitlines()[2:]]
            if (
                sum(row[5] == "2" and row[3] not in ("again", "next") for row in rows if len(row) > 5)
                == count
            ):
                return
            await asyncio.sleep(0.02)


@pytest.fixture
async def town(bench: Bench) -> AsyncIterator[Town]:
    port = free_ports(1)
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(FakeServe(f"127.0.0.{number + 10}", port))
            for number in range(REPLICAS)
        ]
        yield Town(bench, replicas)


class TestSession:
    """Requests with the same `x-session-id` reach the same replica."""

    async def test_session_stays_on_its_replica(self, town: Town) -> None:
        await town.open({"policy": "Session"})
        first = await town.homes()
        assert await town.homes() == first
        assert len(set(first.values())) == REPLICAS, "sessions are spread over all"

    async def test_added_replica_moves_less_than_half_of_sessions(self, town: Town) -> None:
        await town.open({"policy": "Session"}, replicas=3)
        before = await town.homes()
        await town.open({"policy": "Session"}, replicas=4)
        after = await town.homes()
        new = sorted(town.replicas)[3]
        moved = {session for session in SESSIONS if before[session] != after[session]}
        assert moved
        assert {after[session] for session in moved} == {new}
        assert len(moved) < len(SESSIONS) / 2
        await town.open({"policy": "Session"}, replicas=3)
        assert await town.homes() == before

    async def test_gateways_choose_same_replica_for_session(self, town: Town, tmp_path: Path) -> None:
        await town.open({"policy": "Session"})
        homes = await town.homes()
        async with running(tmp_path / "other") as other:
            await Town(other, list(town.replicas.values())).open({"policy": "Session"})
            town.bench = other
            assert await town.homes() == homes

    async def test_request_without_session_goes_to_least_busy_replica(self, town: Town) -> None:
        await town.open({"policy": "Session"})
        async with town.busy("one", 4) as held:
            (busy,) = held
            requested = {await town.ask() for _ in range(20)}
        assert requested == town.replicas.keys() - {busy}

    async def test_request_goes_to_next_replica_if_home_replica_is_full(self, town: Town) -> None:
        await town.open({"policy": "Session"}, limit=2)
        async with town.busy("one", 3) as first, town.busy("one", 1) as second:
            counts = sorted(first.values())
        assert counts == [1, 2], "the third has gone on"
        assert second.keys() == {host for host, count in first.items() if count == 1}, (
            "to the same one as the next"
        )

    async def test_request_waits_if_all_replicas_are_full(self, town: Town) -> None:
        await town.open({"policy": "Session"}, limit=1, replicas=2)
        async with town.busy("one", 2) as held:
            waiting = asyncio.create_task(town.bench.ask("w", BIG, **{"x-session-id": "one"}))
            await town.bench.until(lambda state: state.in_flight == 3)
        assert set(held.values()) == {1}
        assert (await waiting)[0] == 200

    async def test_request_waits_for_home_replica_without_fallbacks(self, town: Town) -> None:
        await town.open({"policy": "Session", "session": {"fallbackReplicas": 0}}, limit=1)
        home = await town.ask("one")
        async with town.busy("one", 1):
            before = town.totals()
            waiting = asyncio.create_task(town.bench.ask("w", BIG, **{"x-session-id": "one"}))
            await town.bench.until(lambda state: state.in_flight == 2)
            await asyncio.sleep(0.3)
            assert town.totals() == before
        assert (await waiting)[0] == 200
        assert (town.totals() - before).keys() == {home}

    async def test_many_requests_of_one_session_are_spread_over_replicas(self, town: Town) -> None:
        await town.open({"policy": "Session", "session": {"fallbackReplicas": 3}})
        async with town.busy("one", 40) as held:
            pass
        assert max(held.values()) <= 13, "a quarter above the mean"

    async def test_only_sessions_of_failed_replica_move(self, town: Town) -> None:
        await town.open({"policy": "Session"})
        homes = await town.homes()
        gone = homes[SESSIONS[0]]
        await town.replicas[gone]._runner.cleanup()
        after = await town.homes()
        assert await town.homes() == after | {SESSIONS[0]: await town.ask(SESSIONS[0])}
        assert {session for session in SESSIONS if homes[session] != after[session]} == {
            session for session in SESSIONS if homes[session] == gone
        }

    async def test_routing_policy_applies_only_to_its_model(self, town: Town) -> None:
        hosts = sorted(town.replicas)
        claim = town.desired(hosts, {"policy": "Session"})
        own: dict[str, Any] = {"port": town.bench.gateway.config.first_port, "front": False}
        big = replace(claim.slot, waits=False, **own)
        small = replace(big, model="org/small", models=("org/small",), choice=None)
        for backend, slot in (("m0", big), ("m1", small)):
            await town.bench.gateway.set_servers(backend, claim.servers)
            await town.bench.gateway.set_gate(backend, slot)
        front = replace(claim.slot, model="", models=(), listed=("big", "org/small"), choice=None, waits=True)
        await town.bench.gateway.set_gate("s0", front)
        for backend in ("m0", "m1"):
            await until_servers_up(town.bench, backend, REPLICAS)
        first = await town.homes()
        assert await town.homes() == first
        requested = [await town.ask("one", b'{"model": "org/small"}') for _ in range(8)]
        assert len(set(requested)) == REPLICAS, "the other model has no routing"
        # The model that goes takes its choice with it: the backend is another one's then.
        await town.bench.gateway.unset_gate("m0")
        await town.bench.gateway.set_servers("m0", claim.servers)
        await town.bench.gateway.set_gate("m0", replace(big, choice=None))
        await until_servers_up(town.bench, "m0", REPLICAS)
        assert len({await town.ask("one") for _ in range(8)}) == REPLICAS


async def test_round_robin_sends_requests_to_replicas_in_turn(town: Town) -> None:
    await town.open({"policy": "RoundRobin"})
    requested = [await town.ask("one") for _ in range(9)]
    assert set(requested[:4]) == town.replicas.keys()
    assert requested[4:] == requested[:5]
    async with town.busy("one", 6) as held:
        assert max(held.values()) == 2
        requested = [await town.ask() for _ in range(8)]
    assert Counter(requested) == dict.fromkeys(town.replicas, 2), "whatever the others have to do"


@pytest.mark.parametrize("routing", [None, {"policy": "PowerOfTwo"}])
async def test_default_and_power_of_two_policy_choose_least_busy_replicas(
    town: Town, routing: dict[str, Any] | None
) -> None:
    await town.open(routing)
    async with town.busy("one", 3) as held:
        assert {await town.ask("one") for _ in range(5)} == town.replicas.keys() - held.keys()


def chat(*words: str, **more: Any) -> bytes:
    """Return a conversation: a system message, then user and assistant by turns."""
    roles = ["system", *["user", "assistant"] * 20]
    messages = [{"role": role, "content": message} for role, message in zip(roles, words, strict=False)]
    return json.dumps({"model": "big", "messages": messages, **more}).encode()


class TestPrefix:
    """Requests with the same prompt prefix reach the same replica."""

    async def test_conversation_stays_on_its_replica(self, town: Town) -> None:
        await town.open({"policy": "Prefix"})
        homes = set()
        for number in range(12):
            turns = ["Be kind.", f"Question {number}", "Answer", "More"]
            requested = {await town.ask(body=chat(*turns[:size], max_tokens=size)) for size in (2, 4)}
            assert len(requested) == 1, "however long it is by now"
            homes |= requested
        assert len(homes) > 1, "conversations with the same system prompt are spread"

    @pytest.mark.parametrize(
        ("path", "one", "more"),
        [
            ("/v1/completions", {"prompt": "a" * 2000}, {"prompt": "a" * 2500}),
            ("/v1/responses", {"input": "hello"}, {"input": "hello", "max_output_tokens": 7}),
            (
                "/v1/responses",
                {"instructions": "kind", "input": [{"role": "user", "content": "one"}]},
                {
                    "instructions": "kind",
                    "input": [{"role": "user", "content": "one"}, {"role": "assistant"}],
                },
            ),
            (
                "/v1/messages",
                {
                    "system": "kind",
                    "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
                },
                {
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "a"}]},
                        {"role": "assistant", "content": "b"},
                    ],
                    "system": "kind",
                },
            ),
            (
                "/v1/chat/completions",
                {"messages": [{"role": "user", "content": "x" * 40_000}]},
                {
                    "messages": [
                        {"role": "user", "content": "x" * 40_000},
                        {"role": "assistant", "content": "y"},
                    ]
                },
            ),
        ],
    )
    async def test_same_prompt_prefix_reaches_same_replica_on_every_path(
        self, town: Town, path: str, one: dict[str, Any], more: dict[str, Any]
    ) -> None:
        await town.open({"policy": "Prefix"})
        for replica in town.replicas.values():
            replica.finish.set()
        bodies = [json.dumps({"model": "big", **body}).encode() for body in (one, more)]
        assert len({await town.ask(body=body, path=path) for body in bodies * 3}) == 1

    async def test_requests_without_prompt_are_spread_over_all_replicas(self, town: Town) -> None:
        await town.open({"policy": "Prefix"})
        body = b'{"model": "big", "input": "word"}'
        assert len({await town.ask(body=body, path="/v1/embeddings") for _ in range(8)}) == REPLICAS

    async def test_load_overrides_prefix_if_imbalance_exceeds_threshold(self, town: Town) -> None:
        await town.open({"policy": "Prefix", "prefix": {"imbalancedThreshold": 3}})
        async with town.busy("one", 5, chat("Be kind.", "Hello")) as held:
            pass
        assert sorted(held.values()) == [1, 4]
