"""A router before a gateway with two services, with real HAProxies and a fake Serve behind each."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate, Slot, SlotState
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports

SLOTS = 4
OWN = 2
MODELS = (("big", "org/small"), ("tiny", "tiny:7b"))
MIB = 2**20
# A hold may end this many seconds early: /proc/uptime, with which the gateway corrects HAProxy's time, has a
# resolution of 10 ms, and HAProxy reads the time once per turn of its event loop.
CLOCK_ERROR = 0.05


class Town:
    """A router, a gateway with two services, and a fake Serve behind each."""

    def __init__(
        self, router: Router, gateway: Gateway, serves: list[FakeServe], clients: aiohttp.ClientSession
    ) -> None:
        self.router = router
        self.gateway = gateway
        self.serves = serves
        self.clients = clients
        ports = router.config.route_ports
        self.own_urls = [f"http://127.0.0.1:{port}" for port in ports]
        """Own addresses of routes."""
        self.url = f"http://127.0.0.1:{router.config.port}"
        self.routes = {
            model: Route(gateway.config.first_port + slot, f"service-{slot}")
            for slot, models in enumerate(MODELS)
            for model in models
        }

    async def gate(self, slot: int, gate: Gate, **more: Any) -> None:
        """Set the gate of a service."""
        service = Slot(service=f"service-{slot}", gate=gate, epoch=1, models=MODELS[slot], **more)
        await self.gateway.set_gate(f"s{slot}", service)

    async def wake(self, slot: int) -> None:
        """Make the model available: its server is known and the gate is open."""
        await self.gateway.set_servers(f"s{slot}", [self.serves[slot].address])
        await self.gate(slot, Gate.OPEN)
        await self.until(slot, lambda state: state.servers_up == 1)

    async def until(self, slot: int, good: Callable[[SlotState], bool], seconds: float = 60) -> SlotState:
        """Wait for a state of a service."""
        async with asyncio.timeout(seconds):
            while not good(state := (await self.gateway.snapshot()).slots[f"s{slot}"]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return state

    async def ask(
        self, name: str, body: Any, path: str = "/v1/chat/completions", **more: str
    ) -> tuple[int, Any]:
        """Send one request; returns the status and the JSON of the answer."""
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        data = io.BytesIO(text) if isinstance(text, bytes) else text
        headers = {"X-Request-Id": name, **more}
        async with self.clients.post(self.url + path, data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> tuple[int, Any]:
        """Read a page."""
        async with self.clients.get(self.url + path) as answer:
            return answer.status, await answer.json()

    async def send(self, data: bytes, seconds: float = 60) -> bytes:
        """Send bytes to the router over a separate connection; returns all that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.router.config.port)
        try:
            writer.write(data)
            async with asyncio.timeout(seconds):
                return await reader.read()
        finally:
            writer.close()

    async def insist(self, body: bytes, chunked: bool = False) -> bytes:
        """Ask with a body that is answered before all of it has been read. Returns all that comes back."""
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n\r\n" % length
        whole = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
        return await asyncio.to_thread(insist, self.router.config.port, head + whole)

    async def bytes_here(self, source: str = "") -> int:
        """Return the bytes of bodies and answers that the router counts, of all clients or of one."""
        found = await self.router.kept()
        return found.sources.get(source, 0) if source else found.bytes


def insist(port: int, data: bytes, seconds: float = 60) -> bytes:
    """Send a request that is answered before all of it has been read, and return the response.

    The connection may break during the send, and the response arrives anyway.
    """
    pieces = []
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def router_settings() -> dict[str, Any]:
    """Return the settings that a test overrides in its router."""
    return {}


@pytest.fixture
async def town(tmp_path: Path, router_settings: dict[str, Any]) -> AsyncIterator[Town]:
    first = free_ports(SLOTS + 1 + OWN)
    folder = tmp_path / "gw"
    own = range(first + 1, first + 1 + OWN)
    settings = {
        "route_ports": own,
        "address": "127.0.0.1",
        "head_timeout": 120,
        "max_connections": 1000,
        **router_settings,
    }
    router = Router(RouterConfig(folder=folder, port=first, **settings))
    gateway = Gateway(
        GatewayConfig(
            folder=folder,
            address="127.0.0.1",
            first_port=first + 1 + OWN,
            slots=SLOTS,
            max_connections=2000,
            head_timeout=120,
            routed_requests=router.config.service_requests,
        )
    )
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
