"""A gateway that has just started: it waits for missing configuration instead of rejecting requests."""

import asyncio
from pathlib import Path

import aiohttp

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from tests.gateway.conftest import SLOTS, Bench
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports


async def test_early_request_waits_until_gateway_is_configured(tmp_path: Path) -> None:
    first = free_ports(SLOTS)
    config = GatewayConfig(folder=tmp_path / "gw", address="127.0.0.1", first_port=first, slots=SLOTS)
    gateway = Gateway(config)
    await gateway.start()
    try:
        async with FakeServe() as serve, aiohttp.ClientSession() as clients:
            bench = Bench(gateway, serve, clients)
            nobody = f"http://127.0.0.1:{first + 1}/v1/completions"
            early = asyncio.create_task(bench.ask("early"))
            stranger = asyncio.create_task(clients.post(nobody, data=b"{}"))
            listing = asyncio.create_task(clients.get(bench.url + "/v1/models"))
            await asyncio.sleep(0.5)
            assert not early.done()
            assert not listing.done()
            assert not stranger.done()
            await bench.wake()
            status, _, _ = await early
            assert status == 200
            assert [model["id"] for model in (await (await listing).json())["data"]] == ["big", "org/small"]
            await gateway.notified_all()
            assert (await stranger).status == 404, "now it is known that there is no such service"
    finally:
        await gateway.kill()
