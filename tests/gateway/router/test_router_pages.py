"""Pages of other sites at the common address: headers by which a browser decides who may read answers."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.hold.test_own import cors
from tests.gateway.town import Town

CHAT, OTHER = "https://chat.example", "https://other.example"


async def opened(town: Town, *origins: tuple[str, ...]) -> None:
    """Wake the services, with these origins each."""
    for slot, pages in enumerate(origins):
        await town.gateway.set_servers(f"s{slot}", [town.serves[slot].address])
        await town.gate(slot, Gate.OPEN, origins=pages)
        await town.until(slot, lambda state: state.servers_up == 1)
    first = town.gateway.config.first_port
    await town.router.set_routes(
        {model: replace(route, origins=origins[route.port - first]) for model, route in town.routes.items()}
    )


async def send_request(town: Town, method: str, path: str, origin: str, **more: Any) -> tuple[int, Any]:
    """Return the status and headers of an answer to a page of that origin."""
    headers = {"Origin": origin, "X-Request-Id": "one"}
    async with town.clients.request(method, town.url + path, headers=headers, **more) as answer:
        await answer.read()
        return answer.status, answer.headers


@pytest.mark.parametrize(("path", "methods"), [("/v1/chat/completions", "POST"), ("/v1/models", "GET, HEAD")])
async def test_cors_preflight_is_allowed_only_for_configured_origins(
    town: Town, path: str, methods: str
) -> None:
    await opened(town, (CHAT,), ())
    status, headers = await send_request(town, "OPTIONS", path, CHAT)
    assert (status, headers["Allow"]) == (204, methods)
    assert cors(headers) == {
        "access-control-allow-origin": CHAT,
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-allow-headers": "*, Authorization",
        "access-control-max-age": "600",
    }
    assert headers["Vary"] == "origin"
    status, headers = await send_request(town, "OPTIONS", path, OTHER)
    assert (status, cors(headers)) == (204, {})
    assert not any(serve.observed for serve in town.serves)


async def test_cors_header_follows_origins_of_each_service(town: Town) -> None:
    await opened(town, (CHAT,), (OTHER,))
    for model, reader in (("big", CHAT), ("tiny", OTHER)):
        for origin in (CHAT, OTHER):
            status, headers = await send_request(
                town, "POST", "/v1/chat/completions", origin, json={"model": model}
            )
            assert status == 200
            allowed = {"access-control-allow-origin": origin} if origin == reader else {}
            assert cors(headers) == allowed


async def test_answers_of_router_allow_origins_of_any_service(town: Town) -> None:
    await opened(town, (CHAT,), ())
    for origin, allowed in ((CHAT, {"access-control-allow-origin": CHAT}), (OTHER, {})):
        assert cors((await send_request(town, "GET", "/v1/models", origin))[1]) == allowed
        status, headers = await send_request(town, "POST", "/v1/completions", origin, json={"model": "none"})
        assert (status, cors(headers)) == (404, allowed)
    await opened(town, (), ())
    assert not cors((await send_request(town, "GET", "/v1/models", CHAT))[1]), (
        "a page that was let is not for ever"
    )
    await opened(town, (), ("*",))
    assert cors((await send_request(town, "GET", "/v1/models", OTHER))[1]) == {
        "access-control-allow-origin": "*"
    }
