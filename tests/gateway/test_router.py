"""The namespace's one address, with real HAProxies: each request reaches the service of its model."""

import asyncio
import io
import json
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daybreak.gateway.config import GatewayConfig
from daybreak.gateway.process import Gateway
from daybreak.gateway.router import Route, Router, RouterConfig
from daybreak.gateway.table import Gate, Service, SlotState
from tests.gateway.fake_serve import FakeServe

SLOTS = 4
MODELS = (("big", "org/small"), ("tiny", "tiny:7b"))
MIB = 2**20


def free_ports(count: int) -> int:
    """The first of so many free ports, of a range that no other test's helper looks in."""
    firsts = list(range(13000, 19000, count))
    random.shuffle(firsts)
    for first in firsts:
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free ports")


class Town:
    """A router, a gateway with two services, and a fake Serve behind each."""

    def __init__(
        self, router: Router, gateway: Gateway, serves: list[FakeServe], clients: aiohttp.ClientSession
    ) -> None:
        self.router = router
        self.gateway = gateway
        self.serves = serves
        self.clients = clients
        self.url = f"http://127.0.0.1:{router.config.port}"
        self.routes = {
            model: Route(gateway.config.first_port + slot, f"service-{slot}")
            for slot, models in enumerate(MODELS)
            for model in models
        }

    async def gate(self, slot: int, gate: Gate, **more: Any) -> None:
        """Set the gate of a service."""
        service = Service(name=f"service-{slot}", gate=gate, epoch=1, models=MODELS[slot], **more)
        await self.gateway.set_service(slot, service)

    async def wake(self, slot: int) -> None:
        """The model is there: its server is known and the gate is open."""
        await self.gateway.set_servers(slot, [self.serves[slot].address])
        await self.gate(slot, Gate.OPEN)
        await self.until(slot, lambda state: state.servers_up == 1)

    async def until(self, slot: int, good: Callable[[SlotState], bool], seconds: float = 60) -> SlotState:
        """Wait for a state of a service."""
        async with asyncio.timeout(seconds):
            while not good(state := (await self.gateway.snapshot()).slots[slot]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return state

    async def ask(self, name: str, body: Any, path: str = "/v1/chat/completions") -> tuple[int, Any]:
        """Send one request; returns the status and the JSON of the answer."""
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        data = io.BytesIO(text) if isinstance(text, bytes) else text
        async with self.clients.post(self.url + path, data=data, headers={"X-Request-Id": name}) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> tuple[int, Any]:
        """Read a page."""
        async with self.clients.get(self.url + path) as answer:
            return answer.status, await answer.json()

    async def bytes_here(self) -> int:
        """Bytes of bodies that the router counts."""
        found = await self.router._haproxy.api.json("router show")
        return int(found["bytes"])


@pytest.fixture
def router_settings() -> dict[str, Any]:
    """What a test sets of its router."""
    return {}


@pytest.fixture
async def town(tmp_path: Path, router_settings: dict[str, Any]) -> AsyncIterator[Town]:
    first = free_ports(SLOTS + 1)
    folder = tmp_path / "gw"
    gateway = Gateway(
        GatewayConfig(
            folder=folder,
            address="127.0.0.1",
            first_port=first + 1,
            slots=SLOTS,
            max_connections=2000,
            head_timeout=120,
        )
    )
    settings = {"address": "127.0.0.1", "head_timeout": 120, "max_connections": 1000, **router_settings}
    router = Router(RouterConfig(folder=folder, port=first, **settings))
    try:
        await gateway.start()
        await router.start()
        async with AsyncExitStack() as stack:
            serves = [await stack.enter_async_context(FakeServe()) for _ in MODELS]
            connector = aiohttp.TCPConnector(limit=0)
            clients = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            found = Town(router, gateway, serves, clients)
            for slot in range(len(MODELS)):
                await found.gate(slot, Gate.CLOSED)
            await router.set_routes(found.routes)
            yield found
    finally:
        await router.kill()
        await gateway.kill()


async def test_the_right_service_gets_each_request(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    long = 'a\\u0041"{[ \\' * (MIB // 8)
    bodies: dict[str, dict[str, Any] | bytes] = {
        "first": {"model": "tiny", "messages": []},
        "last": {"messages": [{"role": "user", "content": 'say "model": "big"'}], "model": "tiny"},
        "nested": {"metadata": {"model": "big"}, "tools": [[{"model": "big"}]], "model": "tiny"},
        "long": {"messages": [{"role": "user", "content": long}], "model": "tiny"},
        "adapter": {"model": "tiny:lora", "messages": []},
        "colon": {"model": "tiny:7b", "messages": []},
        "both": {"model": "tiny:7b:lora", "messages": []},
        "escaped": b'\xef\xbb\xbf {"n": 1, "t": null, "mod\\u0065l" : "t\\u0069ny", "model": 3}',
    }
    for name, body in bodies.items():
        status, answer = await town.ask(name, body)
        assert (status, answer["id"]) == (200, name)
        size = len(body if isinstance(body, bytes) else json.dumps(body))
        assert answer["bytes"] == size
    status, _ = await town.ask("other", {"model": "org/small"})
    assert status == 200
    assert set(town.serves[1].whole) == set(bodies)
    assert set(town.serves[0].whole) == {"other"}


async def test_a_sleeping_service_is_woken_through_the_router(town: Town) -> None:
    await town.wake(0)
    body = {"messages": [{"role": "user", "content": "x" * MIB}], "model": "tiny"}
    held = asyncio.create_task(town.ask("held", body))
    await town.until(1, lambda state: state.held == 1)
    # The other service is not in its way.
    assert (await town.ask("awake", {"model": "big"}))[0] == 200
    await town.wake(1)
    status, answer = await held
    assert (status, answer["id"]) == (200, "held")


async def test_what_cannot_be_routed_is_refused(town: Town) -> None:
    status, answer = await town.ask("unknown", {"messages": [], "model": 'no "such"'})
    assert status == 404
    assert answer["error"] == {
        "message": 'The model no "such" does not exist. There is: big, org/small, tiny, tiny:7b.',
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    missing = [
        {"messages": []},
        {},
        {"model": 3},
        {"model": None},
        {"model": ""},
        {"metadata": {"model": "big"}},
    ]
    for body in missing:
        status, answer = await town.ask("missing", body)
        assert (status, answer["error"]["code"]) == (400, "model_missing"), body
    for text in (
        b"",
        b"[]",
        b"{",
        b'{"messages": [',
        b'{"a": "\\',
        b'{"a"}',
        b'"model"',
        b'{"a": 1 "model": "big"}',
    ):
        status, answer = await town.ask("malformed", text)
        assert (status, answer["error"]["code"]) == (400, "invalid_body"), text
    status, answer = await town.ask("path", {"model": "big"}, "/-/healthz")
    assert (status, answer["error"]["code"]) == (404, "not_found")
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("part", [b'{"a":""},', b'"\\"\\"\\"\\"",'], ids=["objects", "escapes"])
async def test_a_search_that_would_take_long_is_given_up(town: Town, part: bytes) -> None:
    """While one body is searched nobody else is served."""
    body = b'{"messages": [' + part * (MIB // 2) + b'0], "model": "tiny"}'
    status, answer = await town.ask("long", body)
    assert (status, answer["error"]["param"]) == (400, "model")
    assert "Too much stands before" in answer["error"]["message"]


async def test_models_of_sleeping_services_are_listed(town: Town) -> None:
    await town.wake(0)
    status, answer = await town.get("/v1/models")
    assert status == 200
    assert [model["id"] for model in answer["data"]] == ["big", "org/small", "tiny", "tiny:7b"]
    for path in ("/v1/models/org/small", "/v1/models/org%2Fsmall"):
        status, answer = await town.get(path)
        assert (status, answer["id"], answer["object"]) == (200, "org/small", "model")
    status, answer = await town.get("/v1/models/none")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert (await town.until(1, lambda _: True)).arrivals == 0


async def test_a_stream_is_not_kept_back(town: Town) -> None:
    await town.wake(0)
    url = f"{town.url}/v1/completions"
    async with town.clients.post(url, json={"model": "big"}, headers={"X-Request-Id": "s"}) as answer:
        async with asyncio.timeout(30):
            assert await answer.content.readexactly(13) == b"data: first\n\n"
        assert not town.serves[0].finish.is_set()
        town.serves[0].finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [100, MIB])
async def test_a_client_that_leaves_while_held_never_reaches_the_model(town: Town, size: int) -> None:
    body = json.dumps({"messages": "x" * size, "model": "tiny"}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", town.router.config.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await town.until(1, lambda state: state.held == 1)
    writer.close()
    await town.until(1, lambda state: state.held == 0)
    await town.wake(1)
    assert (await town.ask("stays", {"model": "tiny"}))[0] == 200
    assert set(town.serves[1].seen) == {"stays"}
    assert await town.bytes_here() == 0
    assert await reader.read() == b""


async def test_a_client_that_leaves_a_stream_ends_it(town: Town) -> None:
    await town.wake(0)
    url = f"{town.url}/v1/completions"
    async with town.clients.post(url, json={"model": "big"}, headers={"X-Request-Id": "s"}) as answer:
        await answer.content.readexactly(13)
        answer.close()
    await town.until(0, lambda state: state.in_flight == 0)


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 100_000):
        yield body[at : at + 100_000]


@pytest.mark.parametrize("chunked", [False, True])
async def test_the_largest_body_passes_and_no_larger_one(town: Town, chunked: bool) -> None:
    await town.gateway.set_servers(0, [town.serves[0].address])
    await town.gate(0, Gate.OPEN, max_body_bytes=20 * MIB)
    await town.until(0, lambda state: state.servers_up == 1)
    for size, expected in ((10 * MIB, 200), (10 * MIB + 1, 413)):
        body = b'{"messages": "%b", "model": "big"}' % (b"x" * (size - 32))
        assert len(body) == size
        status, answer = await town.ask("large", _pieces(body) if chunked else body)
        assert status == expected, answer
        if status == 413:
            assert answer["error"]["code"] == "request_too_large"
    assert town.serves[0].whole == {"large": 1}
    assert await town.bytes_here() == 0
