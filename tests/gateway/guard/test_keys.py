"""API keys: a client without a valid key is rejected, and changes no state."""

import asyncio
import hashlib
from typing import Any

import pytest

from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench


def api_key(key: str, **more: Any) -> ApiKey:
    """A key that is called as it is."""
    return ApiKey(key, hashlib.sha256(key.encode()).hexdigest(), **more)


KEYS = [api_key("sk-one"), api_key("sk-two")]


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer sk-three", "Basic sk-one", "sk-one", "Bearer sk-one sk-two"]
)
@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
async def test_request_without_valid_key_returns_401_and_is_not_held(
    bench: Bench, header: str, gate: Gate
) -> None:
    await bench.wake(keys=KEYS)
    await bench.gate(gate, keys=KEYS)
    before = await bench.state()
    headers = {"Authorization": header} if header else {}
    status, answered, body = await bench.ask("one", **headers)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert answered["WWW-Authenticate"] == "Bearer"
    async with bench.clients.get(bench.url + "/v1/models", headers=headers) as listing:
        assert listing.status == 401
    state = await bench.state()
    assert (state.arrivals, state.held, state.in_flight) == (0, 0, 0)
    assert state.ends == {"unauthorized": 2}
    assert state.idle_ms >= before.idle_ms
    assert not bench.serve.observed


@pytest.mark.parametrize("header", ["Bearer sk-one", "bearer sk-two", "BEARER  sk-two "])
async def test_valid_key_is_accepted_and_not_forwarded(bench: Bench, header: str) -> None:
    await bench.gate(Gate.CLOSED, keys=KEYS)
    asking = asyncio.create_task(bench.ask("one", Authorization=header))
    await bench.until(lambda state: state.held == 1)
    await bench.wake(keys=KEYS)
    assert (await asking)[0] == 200
    assert "authorization" not in bench.serve.headers
    assert bench.serve.headers["x-daybreak-key-name"] == header.split()[1]
    async with bench.clients.get(bench.url + "/v1/models", headers={"Authorization": header}) as listing:
        assert listing.status == 200


async def test_unknown_key_returns_503_while_another_key_is_unreadable(bench: Bench) -> None:
    await bench.wake(keys=[KEYS[0], ApiKey("two", NOBODY)])
    assert (await bench.ask("one", Authorization="Bearer sk-one"))[0] == 200
    status, answered, body = await bench.ask("two", Authorization="Bearer sk-two")
    assert (status, body["error"]["code"]) == (503, "api_keys_unavailable")
    assert int(answered["Retry-After"]) > 0
    assert (await bench.ask("three"))[0] == 401
    assert bench.serve.observed == {"one": 1}


async def test_change_of_keys_applies_to_next_requests(bench: Bench) -> None:
    await bench.wake(keys=KEYS[:1])
    assert (await bench.ask("one", Authorization="Bearer sk-two"))[0] == 401
    await bench.gate(Gate.OPEN, keys=KEYS[1:])
    assert (await bench.ask("two", Authorization="Bearer sk-two"))[0] == 200
    assert (await bench.ask("three", Authorization="Bearer sk-one"))[0] == 401
    await bench.gate(Gate.OPEN)
    assert (await bench.ask("four"))[0] == 200
    # With none set the header is not ours: the engine may want it.
    assert (await bench.ask("five", Authorization="Bearer its-own"))[0] == 200
    assert bench.serve.headers["authorization"] == "Bearer its-own"


def test_invalid_digest_of_api_key_is_rejected() -> None:
    with pytest.raises(ValueError, match="not a SHA-256 digest"):
        ApiKey("one", "sk-one")
