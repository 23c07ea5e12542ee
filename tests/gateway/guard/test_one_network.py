"""A client with one IPv6 address has 2^64 of them: those of one /64 count as one client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.haproxy.trust import ATTEMPTS
from daybreak.gateway.hold import config as hold_config
from daybreak.gateway.hold import process
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router import config as router_config
from daybreak.gateway.router import router as router_module
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from tests.gateway.guard.test_keys import api_key
from tests.gateway.hostile import POST, crowd
from tests.gateway.ports import free_ports

KEY = api_key("sk-one")
LISTS = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def read_report(text: str) -> str:
    """Return the configuration with the PROXY protocol, as behind a load balancer."""
    assert " v4v6" in text
    text = text.replace(" v4v6", " v4v6 accept-proxy")
    return text.replace("tcp-request connection", "tcp-request session")


def from_address(source: str, port: int) -> bytes:
    """Return the PROXY protocol header for this source address."""
    return f"PROXY TCP6 {source} ::1 4000 {port}\r\n".encode()


def with_key(key: str) -> bytes:
    """Return a request with a key."""
    lines = [f"Authorization: Bearer {key}", "Connection: close", "Content-Length: 2", "", "{}"]
    return POST + "\r\n".join(lines).encode()


async def status(port: int, source: str, data: bytes) -> int:
    """Ask from an address; the answer's status, 0: there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(from_address(source, port) + data)
        async with asyncio.timeout(60):
            words = (await reader.read()).split(maxsplit=2)
        return int(words[1]) if words else 0
    finally:
        writer.close()


@asynccontextmanager
async def hold(folder: Path, *keys: Any, **settings: Any) -> AsyncIterator[int]:
    """Start a gateway with one service; yields its port."""
    port = free_ports(1)
    gateway = Gateway(GatewayConfig(folder=folder, address="::", first_port=port, slots=1, **settings))
    try:
        await gateway.start()
        await gateway.notified_all()
        await gateway.set_gate("s0", Slot("service", Gate.CLOSED, 1, models=("big",), keys=keys))
        yield port
    finally:
        await gateway.kill()


@asynccontextmanager
async def common(folder: Path) -> AsyncIterator[int]:
    """Start a common address without services, with a key; yields its port."""
    port = free_ports(1)
    router = Router(RouterConfig(folder=folder, address="::", port=port))
    try:
        await router.start()
        await router.set_routes({"big": Route(port + 1, "service", keys=(KEY.digest,))})
        yield port
    finally:
        await router.kill()


@pytest.mark.parametrize("which", ["hold", "router"])
async def test_wrong_keys_from_one_ipv6_network_count_as_one_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(process, "render", lambda config: read_report(hold_config.render(config)))
    plain = router_config.render
    monkeypatch.setattr(
        router_module,
        "render",
        lambda config, *file: plain(config, *file) if file else read_report(plain(config)),
    )
    async with hold(tmp_path / "gw", KEY) if which == "hold" else common(tmp_path / "gw") as port:
        wrong = with_key("sk-wrong")
        for number in range(ATTEMPTS + 2):
            last = await status(port, f"2001:db8:0:1::{number + 1:x}", wrong)
        assert last == 429
        assert await status(port, "2001:db8:0:1:ffff::1", wrong) == 429
        assert await status(port, "2001:db8:0:2::1", wrong) == 401
        # Addresses of IPv4 are no network of IPv6, however they are written.
        for _ in range(ATTEMPTS + 2):
            last = await status(port, "::ffff:10.0.0.1", wrong)
        assert last == 429
        assert await status(port, "::ffff:10.0.0.2", wrong) == 401


async def test_connections_of_one_ipv6_network_do_not_block_other_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "render", lambda config: read_report(hold_config.render(config)))
    async with hold(tmp_path / "gw", max_connections=40, head_timeout=120) as port, crowd(port) as strangers:
        for number in range(60):
            await strangers.join(from_address(f"2001:db8:0:1::{number + 1:x}", port) + POST)
        assert await status(port, "2001:db8:0:2::1", LISTS) == 200
        assert await status(port, "::ffff:10.0.0.1", LISTS) == 200
