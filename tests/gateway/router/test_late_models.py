"""A model after a long conversation in the body, as OpenAI's Python client sends it: the router reads it."""

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.router.router import Route, Router
from tests.gateway.hold.test_gates import SMALL, error
from tests.gateway.ports import free_ports
from tests.gateway.village import Village, village

MAX_BODY = 2**20


def late(model: str = "org/small", size: int = 100_000) -> bytes:
    """Return a body with the model as its last field."""
    return json.dumps({"messages": [{"content": "x" * size}], "model": model}).encode()


class Late:
    """A village with a router."""

    def __init__(self, scene: Village, router: Router) -> None:
        self.scene = scene
        self.router = router

    async def ask_router(self, name: str, body: bytes, **headers: str) -> int:
        """Send one request to the common address."""
        url = f"http://127.0.0.1:{self.router.config.port}/v1/chat/completions"
        headers = {"X-Request-Id": name} | headers
        async with self.scene.clients.post(url, data=body, headers=headers) as answer:
            await answer.read()
            return answer.status


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Late]:
    config = RouterConfig(
        folder=tmp_path / "gw",
        address="127.0.0.1",
        port=free_ports(1),
        max_body_bytes=MAX_BODY,
        budget_bytes=2 * MAX_BODY,
        max_connections=500,
    )
    router = Router(config)
    settings = {"late_socket": config.late_socket, "late_bytes": config.max_body_bytes}
    async with village(tmp_path, "big", "org/small", **settings) as scene:
        try:
            await router.start()
            route = Route(scene.config.first_port, "tiny")
            await router.set_routes({"big": route, "org/small": route})
            yield Late(scene, router)
        finally:
            await router.kill()


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in chunks, with no announced length."""
    for at in range(0, len(body), 7000):
        yield body[at : at + 7000]


@pytest.mark.parametrize("chunked", [False, True])
async def test_request_with_late_model_name_waits_only_for_its_model(town: Late, chunked: bool) -> None:
    scene = town.scene
    scene.spec = {"hold": {"maxBodyBytes": "1Mi"}}
    await scene.gate(big="Closed", org__small="Closed")
    body = late()
    held = scene.begin("held", pieces(body) if chunked else body)
    await scene.until("org/small", lambda report: report.held == 1)
    front = scene.report()
    assert front is not None
    assert (front.held, front.arrivals) == (0, 0)
    await scene.gate(org__small="Open")
    assert await held == (200, {"id": "held", "bytes": len(body)})
    assert scene.replicas["org/small"].observed == {"held": 1}
    assert not [name for name in scene.replicas["org/small"].headers if name.startswith("x-daybreak")]


async def test_common_address_uses_late_model_name_despite_client_headers(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Closed", org__small="Open")
    # A client's own word does not count against the body's.
    mine = {"x-daybreak-model": "big", "x-daybreak-routed": "1", "x-daybreak-port": "1"}
    assert await town.ask_router("one", late(), **mine) == 200
    assert scene.replicas["org/small"].observed == {"one": 1}
    assert not [name for name in scene.replicas["org/small"].headers if name.startswith("x-daybreak")]


async def test_internal_headers_of_client_do_not_change_model(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Closed", org__small="Open")
    assert (await scene.ask("body", SMALL, **{"x-daybreak-model": "big"}))[0] == 200
    body = late()
    status, _ = await scene.ask("late", body, **{"x-daybreak-model": "org%2Fsmall", "x-daybreak-port": "1"})
    assert status == 200
    assert (await scene.ask("routed", body, **{"x-daybreak-routed": "1", "x-daybreak-late": "1"}))[0] == 200
    assert scene.replicas["org/small"].observed == {"body": 1, "late": 1, "routed": 1}


async def test_large_body_without_model_is_held_once_at_front(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Closed", org__small="Closed")
    body = json.dumps({"messages": [{"content": "x" * 100_000}]}).encode()
    held = scene.begin("held", body)
    await scene.until("", lambda report: (report.held, report.arrivals) == (1, 1))
    status, code, message = error(await scene.ask("none", late("none")))
    assert (status, code) == (404, "model_not_found")
    assert "big, org/small" in message
    await scene.gate(big="Open", org__small="Open")
    assert (await held)[0] == 200
    assert scene.proxy.observed == {"held": 1}


async def test_request_with_late_model_name_requires_valid_key(town: Late) -> None:
    scene = town.scene
    file = scene.config.folder.parent / "keys" / "team" / "one"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"sk-one")
    scene.spec = {"access": {"apiKeys": [{"secretRef": {"name": "team", "key": "one"}}]}}
    await scene.gate(big="Closed", org__small="Open")
    assert error(await scene.ask("r", late()))[:2] == (401, "invalid_api_key")
    assert (await scene.ask("one", late(), Authorization="Bearer sk-one"))[0] == 200
    assert "authorization" not in scene.replicas["org/small"].headers
    assert scene.replicas["org/small"].observed == {"one": 1}


async def test_body_too_large_for_router_is_served_through_front(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Open", org__small="Open")
    assert (await scene.ask("large", io.BytesIO(late(size=2 * MAX_BODY))))[0] == 200
    assert scene.proxy.observed == {"large": 1}


async def test_held_request_of_departed_client_never_reaches_replica(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Open", org__small="Closed")
    held = scene.begin("held", late())
    await scene.until("org/small", lambda report: report.held == 1)
    held.cancel()
    await scene.until("org/small", lambda report: report.held == 0)
    await scene.gate(org__small="Open")
    # The gate releases held requests when it opens: a delivery would precede this response.
    assert (await scene.ask("later", late()))[0] == 200
    assert scene.replicas["org/small"].observed == {"later": 1}


async def test_request_goes_through_front_after_router_is_killed(town: Late) -> None:
    scene = town.scene
    await scene.gate(big="Open", org__small="Open")
    os.kill(town.router.late_pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while (await scene.ask("late", late()))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert scene.proxy.observed == {"late": 1}


def test_gateway_config_has_no_late_socket_by_default(tmp_path: Path) -> None:
    assert GatewayConfig(folder=tmp_path).late_socket is None
