"""API keys at the common address: models are named only to clients that may use them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.haproxy.trust import ATTEMPTS
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.table import Gate
from tests.gateway.guard.test_keys import api_key
from tests.gateway.town import Town

ONE, TWO, THREE = (api_key(key) for key in ("sk-one", "sk-two", "sk-three"))
BIG, TINY = ["big", "org/small"], ["tiny", "tiny:7b"]


async def keyed(town: Town, *keys: tuple[ApiKey, ...]) -> None:
    """Give the services these keys, in the router and in the gateway."""
    for slot, digests in enumerate(keys):
        await town.gate(slot, Gate.CLOSED, keys=digests)
    first = town.gateway.config.first_port
    routes = {
        model: replace(route, keys=tuple(key.digest for key in keys[route.port - first]))
        for model, route in town.routes.items()
    }
    await town.router.set_routes(routes)


async def get(town: Town, path: str, key: str) -> tuple[int, Any]:
    """Read a page with a key, or without one."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with town.clients.get(town.url + path, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("key", "models"),
    [
        ("", []),
        ("sk-one", BIG),
        ("sk-two", [*BIG, *TINY]),
        ("sk-three", TINY),
        ("sk-four", []),
        (ONE.digest, []),
    ],
)
async def test_models_are_listed_only_for_valid_key(town: Town, key: str, models: list[str]) -> None:
    await keyed(town, (ONE, TWO), (TWO, THREE))
    status, answer = await get(town, "/v1/models", key)
    assert (status, [model["id"] for model in answer["data"]]) == (200, models)
    for model in (*BIG, *TINY):
        status, answer = await get(town, f"/v1/models/{model}", key)
        assert (status, answer.get("id")) == ((200, model) if model in models else (404, None))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": "none"}
    async with town.clients.post(town.url + "/v1/completions", json=body, headers=headers) as answer:
        assert answer.status == (404 if models else 401)
        message = (await answer.json())["error"]["message"]
    assert not models or message.endswith(f"Available models: {', '.join(models)}.")


async def test_models_of_services_without_keys_are_listed_for_all_clients(town: Town) -> None:
    await keyed(town, (ONE,), ())
    for key, models in (("", TINY), ("sk-two", TINY), ("sk-one", [*BIG, *TINY])):
        status, answer = await get(town, "/v1/models", key)
        assert (status, [model["id"] for model in answer["data"]]) == (200, models)
    await keyed(town, (), ())
    assert [model["id"] for model in (await get(town, "/v1/models", ""))[1]["data"]] == [*BIG, *TINY]


async def test_request_through_router_requires_key_of_service(town: Town) -> None:
    await keyed(town, (ONE,), ())
    await town.gateway.set_servers("s0", [town.serves[0].address])
    await town.gate(0, Gate.OPEN, keys=(ONE,))
    await town.until(0, lambda state: state.servers_up == 1)
    for key, expected in (("", 401), ("sk-two", 401), ("sk-one", 200)):
        headers = {"X-Request-Id": "one"} | ({"Authorization": f"Bearer {key}"} if key else {})
        url, body = f"{town.url}/v1/chat/completions", {"model": "big"}
        async with town.clients.post(url, json=body, headers=headers) as answer:
            assert answer.status == expected
    assert "authorization" not in town.serves[0].headers


async def test_key_limits_apply_to_request_with_late_model_name(town: Town) -> None:
    keys = (api_key("sk-one", models=("big",), per_minute=3),)
    await keyed(town, keys, (TWO,))
    await town.gateway.set_servers("s0", [town.serves[0].address])
    await town.gate(0, Gate.OPEN, keys=keys)
    await town.until(0, lambda state: state.servers_up == 1)

    async def ask(key: str, model: str) -> tuple[int, str | None]:
        body = json.dumps({"messages": [{"role": "user", "content": "x" * 200_000}], "model": model})
        headers = {"X-Request-Id": "r"} | ({"Authorization": f"Bearer {key}"} if key else {})
        async with town.clients.post(f"{town.url}/v1/chat/completions", data=body, headers=headers) as answer:
            return answer.status, (await answer.json()).get("error", {}).get("code")

    assert await ask("", "big") == (401, "invalid_api_key")
    assert await ask("sk-three", "big") == (401, "invalid_api_key")
    assert await town.bytes_here() == 0
    assert await ask("sk-two", "big") == (401, "invalid_api_key"), "a key of the other service"
    assert await ask("sk-one", "org/small") == (403, "model_not_allowed")
    assert await ask("sk-one", "big") == (200, None)
    assert town.serves[0].headers["x-daybreak-key-name"] == "sk-one"
    # Each of them has been counted once.
    assert await ask("sk-one", "big") == (200, None)
    assert await ask("sk-one", "big") == (429, "rate_limit_exceeded")
    assert town.serves[0].observed == {"r": 2}


async def test_client_gets_429_after_too_many_invalid_keys(town: Town) -> None:
    await keyed(town, (ONE,), (TWO,))
    await town.gate(0, Gate.FAILED, keys=(ONE,))

    async def ask(key: str) -> tuple[int, str]:
        headers, body = {"Authorization": f"Bearer {key}"}, {"model": "big"}
        async with town.clients.post(f"{town.url}/v1/completions", json=body, headers=headers) as answer:
            return answer.status, (await answer.json())["error"]["code"]

    assert await ask("sk-one") == (503, "model_failed")
    answers = [await ask(f"guess-{number}") for number in range(ATTEMPTS + 5)]
    assert answers[0] == (401, "invalid_api_key")
    assert answers[-1] == (429, "too_many_attempts")
    assert await ask("sk-two") == (429, "too_many_attempts"), "a key that is right is not found out"
    assert await ask("sk-one") == (503, "model_failed"), "who has used his from there goes on"
