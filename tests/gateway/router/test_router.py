"""The namespace's one address, with real HAProxies: each request reaches the service of its model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import MIB, Town


async def test_each_request_reaches_service_of_its_model(town: Town) -> None:
    await town.wake(0)
    await town.wake(1)
    long = 'a\\u0041"{[ \\' * (MIB // 8)
    bodies: dict[str, dict[str, Any] | bytes] = {
        "first": {"model": "tiny", "messages": []},
        "last": {"messages": [{"role": "user", "content": 'say "model": "big"'}], "model": "tiny"},
        "nested": {"metadata": {"model": "big"}, "tools": [[{"model": "big"}]], "model": "tiny"},
        "long": {"messages": [{"role": "user", "content": long}], "model": "tiny"},
        "colon": {"model": "tiny:7b", "messages": []},
        "escaped": b'\xef\xbb\xbf {"n": 1, "t": null, "mod\\u0065l" : "t\\u0069ny", "model": 3}',
    }
    for name, body in bodies.items():
        status, answer = await town.ask(name, body)
        assert (status, answer["id"]) == (200, name)
        size = len(body if isinstance(body, bytes) else json.dumps(body))
        assert answer["bytes"] == size
    status, _ = await town.ask("other", {"model": "org/small"})
    assert status == 200
    assert set(town.serves[1].whole) == set(bodies)
    assert set(town.serves[0].whole) == {"other"}


async def test_request_through_router_is_held_until_service_wakes(town: Town) -> None:
    await town.wake(0)
    body = {"messages": [{"role": "user", "content": "x" * MIB}], "model": "tiny"}
    held = asyncio.create_task(town.ask("held", body))
    await town.until(1, lambda state: state.held == 1)
    # The other service is not in its way.
    assert (await town.ask("awake", {"model": "big"}))[0] == 200
    await town.wake(1)
    status, answer = await held
    assert (status, answer["id"]) == (200, "held")


async def test_request_without_routable_model_is_rejected(town: Town) -> None:
    status, answer = await town.ask("unknown", {"messages": [], "model": 'no "such"'})
    assert status == 404
    assert answer["error"] == {
        "message": "The model 'no \"such\"' does not exist. Available models: big, org/small, tiny, tiny:7b.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    # Clients request an adapter by the name in the list, and by no other.
    assert (await town.ask("suffix", {"model": "tiny:7b:lora"}))[0] == 404
    missing = [
        {"messages": []},
        {},
        {"model": 3},
        {"model": None},
        {"model": ""},
        {"metadata": {"model": "big"}},
    ]
    for body in missing:
        status, answer = await town.ask("missing", body)
        assert (status, answer["error"]["code"]) == (400, "model_missing"), body
    for text in (
        b"",
        b"[]",
        b"{",
        b'{"messages": [',
        b'{"a": "\\',
        b'{"a"}',
        b'"model"',
        b'{"a": 1 "model": "big"}',
    ):
        status, answer = await town.ask("malformed", text)
        assert (status, answer["error"]["code"]) == (400, "invalid_body"), text
    status, answer = await town.ask("path", {"model": "big"}, "/-/healthz")
    assert (status, answer["error"]["code"]) == (404, "not_found")
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("part", [b'{"a":""},', b'"\\"\\"\\"\\"",'], ids=["objects", "escapes"])
async def test_body_that_takes_too_long_to_search_is_rejected(town: Town, part: bytes) -> None:
    """While one body is searched, the router serves no other client."""
    body = b'{"messages": [' + part * (MIB // 2) + b'0], "model": "tiny"}'
    status, answer = await town.ask("long", body)
    assert (status, answer["error"]["param"]) == (400, "model")
    assert "comes too late" in answer["error"]["message"]


async def test_models_of_sleeping_services_are_listed(town: Town) -> None:
    await town.wake(0)
    status, answer = await town.get("/v1/models")
    assert status == 200
    assert [model["id"] for model in answer["data"]] == ["big", "org/small", "tiny", "tiny:7b"]
    for path in ("/v1/models/org/small", "/v1/models/org%2Fsmall"):
        status, answer = await town.get(path)
        assert (status, answer["id"], answer["object"]) == (200, "org/small", "model")
    status, answer = await town.get("/v1/models/none")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert (await town.until(1, lambda _: True)).arrivals == 0


async def test_stream_is_forwarded_before_stream_ends(town: Town) -> None:
    await town.wake(0)
    url = f"{town.url}/v1/completions"
    async with town.clients.post(url, json={"model": "big"}, headers={"X-Request-Id": "s"}) as answer:
        async with asyncio.timeout(30):
            assert await answer.content.readexactly(13) == b"data: first\n\n"
        assert not town.serves[0].finish.is_set()
        town.serves[0].finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [100, MIB])
async def test_a_client_that_leaves_while_held_never_reaches_the_model(town: Town, size: int) -> None:
    body = json.dumps({"messages": "x" * size, "model": "tiny"}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", town.router.config.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await town.until(1, lambda state: state.held == 1)
    writer.close()
    await town.until(1, lambda state: state.held == 0)
    await town.wake(1)
    assert (await town.ask("stays", {"model": "tiny"}))[0] == 200
    assert set(town.serves[1].observed) == {"stays"}
    assert await town.bytes_here() == 0
    assert await reader.read() == b""


async def test_stream_ends_if_client_disconnects(town: Town) -> None:
    await town.wake(0)
    url = f"{town.url}/v1/completions"
    async with town.clients.post(url, json={"model": "big"}, headers={"X-Request-Id": "s"}) as answer:
        await answer.content.readexactly(13)
        answer.close()
    await town.until(0, lambda state: state.in_flight == 0)


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 100_000):
        yield body[at : at + 100_000]


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_passes_up_to_size_limit_and_returns_413_above(town: Town, chunked: bool) -> None:
    await town.gateway.set_servers("s0", [town.serves[0].address])
    await town.gate(0, Gate.OPEN, max_body_bytes=20 * MIB)
    await town.until(0, lambda state: state.servers_up == 1)
    body = b'{"messages": "%b", "model": "big"}' % (b"x" * (10 * MIB - 32))
    assert len(body) == 10 * MIB
    assert (await town.ask("large", _pieces(body) if chunked else body))[0] == 200
    assert error(await town.insist(body + b" ", chunked)) == (413, "request_too_large")
    assert town.serves[0].whole == {"large": 1}
    assert await town.bytes_here() == 0
