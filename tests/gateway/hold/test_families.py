"""IPv4 and IPv6: clients and servers of both families, and of IPv6 alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from daybreak.gateway.agent.settings import Settings
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate, Slot
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports

BODY = b'{"model": "big"}'


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[tuple[Gateway, Router]]:
    """Yield a gateway and its router at the addresses that they have by themselves."""
    address = Settings.from_environment({"POD_NAMESPACE": "models"}).address
    port = free_ports(2)
    made = Gateway(GatewayConfig(folder=tmp_path / "gw", address=address, first_port=port + 1, slots=1))
    router = Router(RouterConfig(folder=tmp_path / "gw", address=address, port=port))
    try:
        await made.start()
        await router.start()
        await router.set_routes({"big": Route(port + 1, "service")})
        yield made, router
    finally:
        await router.kill()
        await made.kill()


@pytest.mark.parametrize("server", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("client", ["127.0.0.1", "[::1]"])
async def test_requests_are_held_and_served_over_ipv4_and_ipv6(
    gateway: tuple[Gateway, Router], server: str, client: str
) -> None:
    hold, router = gateway
    path = "/v1/chat/completions"
    async with FakeServe(server) as serve, aiohttp.ClientSession() as clients:

        async def ask(name: str, port: int) -> int:
            url, headers = f"http://{client}:{port}{path}", {"X-Request-Id": name}
            async with clients.post(url, data=BODY, headers=headers) as answer:
                return answer.status

        await hold.set_gate("s0", Slot("service", Gate.CLOSED, 1, models=("big",)))
        held = asyncio.create_task(ask("held", hold.config.first_port))
        routed = asyncio.create_task(ask("routed", router.config.port))
        left = asyncio.create_task(ask("left", hold.config.first_port))
        async with asyncio.timeout(30):
            while (await hold.snapshot()).slots["s0"].held < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            left.cancel()
            while (await hold.snapshot()).slots["s0"].held > 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await hold.set_servers("s0", [serve.address])
        await hold.set_gate("s0", Slot("service", Gate.OPEN, 2, models=("big",)))
        assert [await each for each in (held, routed)] == [200, 200]
        assert dict(serve.observed) == {"held": 1, "routed": 1}
