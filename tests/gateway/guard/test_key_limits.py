"""Limits of a key: expiry, allowed models, and rates."""

import asyncio
import json
import time
from typing import Any

import pytest

from daybreak.gateway.haproxy.trust import ATTEMPTS
from daybreak.gateway.hold.table import Gate, KeyState
from tests.gateway.conftest import BODY, Bench
from tests.gateway.guard.test_keys import api_key
from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import insist

CHAT = "/v1/chat/completions"


def bearer(key: str) -> dict[str, str]:
    """Return a key's header."""
    return {"Authorization": f"Bearer {key}"}


async def read_report(
    bench: Bench, body: bytes = BODY, key: str = "sk-one", path: str = CHAT
) -> tuple[int, Any]:
    """Send a request, and return the status and the error's code."""
    status, _, answer = await bench.ask("r", body, path, **bearer(key))
    return status, answer.get("error", {}).get("code")


async def test_key_is_rejected_after_expiry(bench: Bench) -> None:
    await bench.wake()
    now = int(time.time())
    keys = [api_key("sk-one", expires=now + 5), api_key("sk-two", expires=now - 1), api_key("sk-three")]
    await bench.gate(Gate.OPEN, keys=keys)
    assert await read_report(bench) == (200, None)
    assert await read_report(bench, key="sk-two") == (401, "api_key_expired")
    async with asyncio.timeout(60):
        while await read_report(bench) != (401, "api_key_expired"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    assert time.time() >= now + 5
    assert await read_report(bench, key="sk-three") == (200, None)


@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
async def test_request_is_rejected_if_key_does_not_allow_model(bench: Bench, gate: Gate) -> None:
    keys = [api_key("sk-one", models=("org/small",)), api_key("sk-two")]
    await bench.wake(keys=keys)
    await bench.gate(gate, keys=keys)
    refused = [
        b'{"model": "big"}',
        b'{"model": "org/small", "model": "big"}',
        b'{"model": "org/small", "mod\\u0065l": "big"}',
        b'{"model": "org/small", "model": null}',
        b'{"model": "org/small", "model": ["big"]}',
        b'{"messages": []}',
        b"",
    ]
    for body in refused:
        status, _, answer = await bench.ask("r", body, **bearer("sk-one"))
        assert (status, answer["error"]["param"]) in ((403, "model"), (400, "model")), body
    form = {"Content-Type": "multipart/form-data; boundary=zz"}
    part = b'--zz\r\nContent-Disposition: form-data; name="model"\r\n\r\norg/small\r\n--zz--\r\n'
    assert (await bench.ask("r", part, "/v1/audio/transcriptions", **form, **bearer("sk-one")))[0] == 403
    assert not bench.serve.observed
    assert (await bench.state()).held == 0
    async with bench.clients.get(bench.url + "/v1/models", headers=bearer("sk-one")) as listing:
        assert [model["id"] for model in (await listing.json())["data"]] == ["org/small"]
    await bench.gate(Gate.OPEN, keys=keys)
    assert await read_report(bench, b'{"model": "org/small"}') == (200, None)
    assert await read_report(bench, b'{"model": "big"}', "sk-two") == (200, None)


async def test_second_model_name_after_long_text_is_rejected(bench: Bench) -> None:
    await bench.wake(keys=[api_key("sk-one", models=("org/small",))])
    text = json.dumps({"model": "org/small", "user": "x" * 100_000}).encode()
    data = text[:-1] + b', "model": "big"}'
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Authorization: Bearer sk-one\r\nX-Request-Id: r\r\nContent-Length: %d\r\n\r\n" % len(data)
    )
    answer = await asyncio.to_thread(insist, bench.gateway.config.first_port, head + data)
    assert error(answer) == (400, "invalid_body")
    assert b'"param": "model"' in answer
    assert not bench.serve.whole


async def test_request_above_rate_per_minute_of_key_returns_429(bench: Bench) -> None:
    keys = [api_key("sk-one", per_minute=3), api_key("sk-two")]
    await bench.wake(keys=keys)
    assert [await read_report(bench) for _ in range(5)] == [(200, None)] * 3 + [
        (429, "rate_limit_exceeded")
    ] * 2
    assert await read_report(bench, key="sk-two") == (200, None)
    state = await bench.state()
    assert state.keys == {"sk-one": KeyState(5, 0, 2), "sk-two": KeyState(1, 0, 0)}
    assert state.past_lua == 4
    # As many as there were, after a change of anything else.
    await bench.gate(Gate.OPEN, keys=[api_key("sk-one", per_minute=6), api_key("sk-two")])
    assert await read_report(bench) == (200, None)
    assert (await bench.state()).keys["sk-one"] == KeyState(6, 0, 2)


async def test_request_above_in_flight_limit_of_key_returns_429(bench: Bench) -> None:
    await bench.wake(keys=[api_key("sk-one", in_flight=2), api_key("sk-two")])
    bench.serve.hold_answers = True
    asking = [asyncio.create_task(read_report(bench)) for _ in range(2)]
    await bench.until(lambda state: state.keys["sk-one"].in_flight == 2)
    assert await read_report(bench) == (429, "rate_limit_exceeded")
    bench.serve.finish.set()
    assert await asyncio.gather(*asking) == [(200, None)] * 2
    assert await read_report(bench) == (200, None)


async def test_request_above_held_limit_of_key_returns_429(bench: Bench) -> None:
    keys = [api_key("sk-one", held=2), api_key("sk-two"), api_key("sk-three")]
    await bench.gate(Gate.CLOSED, keys=keys, max_held=20)
    asking = [asyncio.create_task(read_report(bench)) for _ in range(2)]
    await bench.until(lambda state: state.held == 2)
    assert await read_report(bench) == (429, "hold_full")
    # A client without a limit leaves capacity for the next one.
    many = [asyncio.create_task(read_report(bench, key="sk-two")) for _ in range(30)]
    await bench.until(lambda state: sum(task.done() for task in many) + state.held == 32)
    held = (await bench.state()).held - 2
    assert 10 <= held < 18
    third = asyncio.create_task(read_report(bench, key="sk-three"))
    await bench.until(lambda state: state.held == held + 3)
    await bench.gateway.set_servers("s0", [bench.serve.address])
    await bench.gate(Gate.OPEN, keys=keys, max_held=20)
    assert await asyncio.gather(*asking, third) == [(200, None)] * 3
    assert sorted(await asyncio.gather(*many)) == [(200, None)] * held + [(429, "hold_full")] * (30 - held)


async def test_client_gets_429_after_too_many_invalid_keys(bench: Bench) -> None:
    await bench.wake(keys=[api_key("sk-one"), api_key("sk-two")])
    assert await read_report(bench) == (200, None)
    found = [await read_report(bench, key=f"sk-{number}") for number in range(ATTEMPTS + 5)]
    assert found[0] == (401, "invalid_api_key")
    assert found[-1] == (429, "too_many_attempts")
    # A guessing client cannot identify the right key, and a client that used its key from there continues.
    assert await read_report(bench, key="sk-two") == (429, "too_many_attempts")
    assert await read_report(bench) == (200, None)
    # A request without a key receives 401.
    assert (await bench.ask("r"))[0] == 401
