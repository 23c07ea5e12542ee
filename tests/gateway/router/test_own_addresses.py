"""Dedicated addresses of routes, with real HAProxies: they serve their names only, for any request."""

import hashlib
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.router.router import Route
from daybreak.gateway.router.shares import Share
from tests.gateway.router.test_shared_names import got, share, way
from tests.gateway.town import MIB, Town

CHAT = "/v1/chat/completions"


@pytest.fixture
async def routes(town: Town) -> Town:
    """Program two routes: `chat` to the first service, at a dedicated address, and `other` to the second."""
    await town.wake(0)
    await town.wake(1)
    first, second = town.router.config.route_ports
    shares = [
        Share("r", ("chat", "chat-2"), (way(town, 0),), port=first),
        Share("o", ("other",), (way(town, 1),), port=second),
    ]
    await town.router.set_routes(town.routes, shares)
    return town


async def ask(town: Town, own: int, model: str, *, size: int = 10, **headers: str) -> tuple[int, Any]:
    """Send one request to an own address. Returns the status and the answer."""
    data = io.BytesIO(json.dumps({"messages": "x" * size, "model": model}).encode())
    async with town.clients.post(town.own_urls[own] + CHAT, data=data, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("size", [10, 40_000, 2 * MIB], ids=["first", "late", "large"])
async def test_own_address_serves_only_names_of_its_route(routes: Town, size: int) -> None:
    assert (await ask(routes, 0, "chat", size=size))[0] == 200
    assert (await ask(routes, 0, "chat-2", size=size))[0] == 200
    assert (await ask(routes, 1, "other", size=size))[0] == 200
    assert got(routes) == [2, 1]
    for own, model in ((0, "other"), (0, "tiny"), (0, "nobody"), (1, "chat"), (1, "big")):
        status, answer = await ask(routes, own, model, size=size)
        assert (status, answer["error"]["code"]) == (404, "model_not_found"), model
        there = ("Available models: chat, chat-2.", "Available models: other.")[own]
        assert answer["error"]["message"].endswith(there)
    assert (await routes.ask("all", {"model": "other"}))[0] == 200
    assert got(routes) == [2, 2]


async def test_own_address_lists_only_names_of_its_route(routes: Town) -> None:
    async def listed(url: str) -> list[str]:
        async with routes.clients.get(url + "/v1/models") as answer:
            return [each["id"] for each in (await answer.json())["data"]]

    assert await listed(routes.own_urls[0]) == ["chat", "chat-2"]
    assert await listed(routes.own_urls[1]) == ["other"]
    assert {"chat", "other", "tiny", "big"} < set(await listed(routes.url))
    for own, name, status in ((0, "chat", 200), (0, "other", 404), (0, "tiny", 404), (1, "other", 200)):
        async with routes.clients.get(f"{routes.own_urls[own]}/v1/models/{name}") as answer:
            assert answer.status == status, name


@pytest.mark.parametrize("size", [10, 40_000], ids=["first", "late"])
async def test_client_header_cannot_select_another_route(routes: Town, size: int) -> None:
    second = str(routes.router.config.route_ports[1])
    for name in ("X-Daybreak-Door", "X-Daybreak-Port", "X-Daybreak-Next", "Host"):
        status, _ = await ask(routes, 0, "other", size=size, **{name: second})
        assert status == 404, name
    assert got(routes) == [0, 0]


async def test_own_address_requires_key_of_its_route(routes: Town) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    keyed = {name: replace(route, keys=(digest,)) for name, route in routes.routes.items()}
    first, _ = routes.router.config.route_ports
    own = Share("r", ("chat",), (way(routes, 0),), port=first, keys=(digest,))
    await routes.router.set_routes(keyed, [own])
    assert (await ask(routes, 0, "chat"))[0] == 401
    assert (await ask(routes, 0, "chat", Authorization="Bearer other"))[0] == 401
    assert (await ask(routes, 0, "chat", Authorization="Bearer secret"))[0] == 200
    # A client may use another service without a key: that service's address reveals no names of this route.
    await routes.router.set_routes({**keyed, "open": Route(1, "open")}, [own])
    status, answer = await ask(routes, 0, "nobody")
    assert (status, "require an API key" in answer["error"]["message"]) == (404, True)


async def test_address_without_route_returns_503(routes: Town) -> None:
    status, answer = await ask(routes, 1, "other")
    assert status == 200
    await share(routes, way(routes, 0))
    status, answer = await ask(routes, 1, "chat")
    assert (status, answer["error"]["code"]) == (503, "route_not_ready")
    async with routes.clients.get(routes.own_urls[1] + "/v1/models") as found:
        assert (await found.json())["data"] == []
