"""A real HAProxy on the loopback, a fake Serve behind it, and clients."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate, Slot, SlotState
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports
from tests.gateway.scene import drain_seconds, plane, programs, scene
from tests.gateway.town import router_settings, town

__all__ = ("drain_seconds", "plane", "programs", "router_settings", "scene", "town")  # fixtures

SLOTS = 4
BODY = b'{"model": "big"}'
LOOK_SECONDS = 0.02
"""Between two looks at a state."""


class Bench:
    """One gateway with one service in slot 0, and one fake Serve."""

    def __init__(self, gateway: Gateway, serve: FakeServe, clients: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.serve = serve
        self.clients = clients
        self.epoch = 0
        self.url = f"http://127.0.0.1:{gateway.config.first_port}"

    async def gate(self, gate: Gate, **more: Any) -> None:
        """Set the gate of slot 0."""
        self.epoch += 1
        service = Slot(service="qwen", gate=gate, epoch=self.epoch, models=("big", "org/small"), **more)
        await self.gateway.set_gate("s0", service)

    async def wake(self, **more: Any) -> None:
        """Make the model available: its server is known and the gate is open."""
        await self.gateway.set_servers("s0", [self.serve.address])
        await self.gate(Gate.OPEN, **more)
        await self.until(lambda state: state.servers_up == 1)

    async def state(self) -> SlotState:
        """Return the state of slot 0 as the gateway reports it."""
        return (await self.gateway.snapshot()).slots["s0"]

    async def until(self, good: Callable[[SlotState], bool], seconds: float = 120) -> SlotState:
        """Wait for a state of slot 0.

        Args:
            good: Whether it is the state.
            seconds: How long at most, counted in looks: where looks are late, since other programs have the
                processor, the gateway is as late as they are.
        """
        for _ in range(int(seconds / LOOK_SECONDS)):
            if good(state := await self.state()):
                return state
            await asyncio.sleep(LOOK_SECONDS)
        raise TimeoutError(f"not within {seconds} s: {state}")

    async def ask(self, name: str, body: Any = BODY, path: str = "/v1/chat/completions", **more: Any) -> Any:
        """Send one request; returns status, headers and the JSON of the answer."""
        headers = {"X-Request-Id": name, **more}
        async with self.clients.post(self.url + path, data=body, headers=headers) as answer:
            return answer.status, answer.headers, await answer.json()

    async def send(self, data: bytes, seconds: float = 120) -> bytes:
        """Send bytes over a separate connection; returns all that comes back until it is closed."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            async with asyncio.timeout(seconds):
                return await reader.read()
        finally:
            writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a bare connection to slot 0."""
        return await asyncio.open_connection("127.0.0.1", self.gateway.config.first_port)


@pytest.fixture
def head_timeout() -> int:
    """Seconds for a request's head: long, since hundreds of clients share two cores with their gateway."""
    return 120


@pytest.fixture
def stream_timeout() -> int:
    """Return the seconds for which a model may be silent, and its client, if that is shorter than usual."""
    return 3600


@pytest.fixture
def keep_alive_timeout() -> int:
    """Return the seconds for which a connection may be without a request."""
    return 300


@asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[Bench]:
    """Start a separate gateway, with a fake Serve and clients."""
    config = GatewayConfig(
        folder=folder,
        address="127.0.0.1",
        first_port=free_ports(SLOTS),
        slots=SLOTS,
        **{"max_connections": 4000, **settings},
    )
    gateway = Gateway(config)
    await gateway.start()
    await gateway.notified_all()
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with FakeServe() as serve, aiohttp.ClientSession(connector=connector) as clients:
            yield Bench(gateway, serve, clients)
    finally:
        await gateway.kill()


@pytest.fixture
async def bench(
    tmp_path: Path, head_timeout: int, stream_timeout: int, keep_alive_timeout: int
) -> AsyncIterator[Bench]:
    async with running(
        tmp_path / "gw",
        head_timeout=head_timeout,
        stream_timeout=stream_timeout,
        stall_timeout=min(60, stream_timeout),
        keep_alive_timeout=keep_alive_timeout,
    ) as made:
        yield made
