"""Answers of the gateway itself, in every state of the model: they wake nothing and keep nothing awake."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from yarl import URL

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import BODY, Bench
from tests.gateway.guard.test_keys import KEYS
from tests.gateway.replicas.test_malformed import error

ASKS = "/v1/chat/completions"
MODELS = ["big", "org/small"]


async def get(bench: Bench, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
    """Send a request without a body; returns status, headers and the JSON of the answer, if it has any."""
    url = URL(bench.url + path, encoded=True)
    async with bench.clients.request(method, url, headers=headers) as answer:
        return answer.status, answer.headers, await answer.json() if await answer.read() else None


async def set_gate(bench: Bench, gate: Gate, **more: Any) -> None:
    """Wake the service, and then set the gate."""
    await bench.wake(**more)
    await bench.gate(gate, **more)


def cors(headers: Any) -> dict[str, str]:
    """Return the headers that allow a browser to use pages of other sites."""
    return {
        name.lower(): value for name, value in headers.items() if name.lower().startswith("access-control-")
    }


async def nothing_moved(bench: Bench) -> None:
    """Check that the model has received no request."""
    state = await bench.state()
    assert (state.arrivals, state.past_lua, state.held, state.in_flight) == (0, 0, 0, 0)
    assert not bench.serve.observed
    assert not bench.serve.listed


async def test_long_model_list_is_returned_completely(bench: Bench) -> None:
    many = tuple(f"org/adapter-{number:04}" for number in range(500))
    await bench.gateway.set_gate("s0", Slot(service="qwen", gate=Gate.CLOSED, epoch=1, models=many))
    status, headers, body = await get(bench, "/v1/models")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert [model["id"] for model in body["data"]] == list(many)
    status, _, body = await get(bench, "/v1/models", "HEAD")
    assert (status, body) == (200, None)


@pytest.mark.parametrize("gate", Gate)
async def test_models_are_listed_in_every_state(bench: Bench, gate: Gate) -> None:
    await set_gate(bench, gate)
    status, _, body = await get(bench, "/v1/models")
    assert (status, [model["id"] for model in body["data"]]) == (200, MODELS)
    for path in ("/v1/models/org/small", "/v1/models/org%2Fsmall"):
        status, _, body = await get(bench, path)
        assert (status, body["id"]) == (200, "org/small")
    status, _, body = await get(bench, "/v1/models/none")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert body["error"]["message"] == "The model 'none' does not exist. Available models: big, org/small."
    await nothing_moved(bench)


async def test_listing_models_does_not_reset_idle_time(bench: Bench) -> None:
    await bench.wake()
    idle = (await bench.state()).idle_ms
    sequence, _ = await bench.gateway.changes(0)
    begun = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < begun + 2:
        pages = (("/v1/models", "GET"), ("/v1/models/big", "GET"), ("/v1/models", "HEAD"), (ASKS, "HEAD"))
        asking = [asyncio.create_task(get(bench, path, method)) for path, method in pages * 5]
        while not all(task.done() for task in asking):
            state = await bench.state()
            assert (state.idle_ms >= idle, state.in_flight) == (True, 0)
            idle = state.idle_ms
        assert {task.result()[0] for task in asking} == {200, 405}
    assert idle >= 1500
    _, reported = await bench.gateway.changes(sequence)
    assert [state.ends.keys() for state in reported.slots.values()] == [{"refused"}], (
        "who lists changes nothing"
    )
    await nothing_moved(bench)


async def test_slow_reader_of_model_list_does_not_reset_idle_time(bench: Bench) -> None:
    await bench.wake()
    idle = (await bench.state()).idle_ms
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", bench.gateway.config.first_port))
    slow.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=slow, limit=4096)
    # The answers exceed the sockets' buffers, so one of them is always in transit.
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * 50_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    for _ in range(20):
        await asyncio.sleep(0.1)
        state = await bench.state()
        assert (state.idle_ms >= idle, state.in_flight) == (True, 0)
        idle = state.idle_ms
    writer.close()


@pytest.mark.parametrize("gate", Gate)
async def test_unsupported_method_returns_405(bench: Bench, gate: Gate) -> None:
    await set_gate(bench, gate)
    refused = [(ASKS, method) for method in ("GET", "PUT", "PATCH", "DELETE")]
    refused += [("/v1/models", method) for method in ("POST", "DELETE")]
    for path, method in refused:
        status, headers, body = await get(bench, path, method)
        assert (status, body["error"]["code"]) == (405, "method_not_allowed")
        assert body["error"]["type"] == "invalid_request_error"
        assert headers["Allow"] == ("POST" if path == ASKS else "GET, HEAD")
    # JSON, which a service that is awake gets without Lua.
    status, _, _ = await bench.ask("one", BODY, "/v1/models")
    assert status == 405
    await nothing_moved(bench)
    assert (await bench.state()).ends == {"refused": len(refused) + 1}


@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
async def test_head_request_is_answered_without_body(bench: Bench, gate: Gate) -> None:
    await set_gate(bench, gate)
    for path, status in (("/v1/models", 200), (ASKS, 405)):
        head = f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        answer = await bench.send(head)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert answer.endswith(b"\r\n\r\n")
    await nothing_moved(bench)


@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
@pytest.mark.parametrize(("path", "methods"), [(ASKS, "POST"), ("/v1/models", "GET, HEAD")])
async def test_cors_preflight_is_allowed_only_for_configured_origins(
    bench: Bench, gate: Gate, path: str, methods: str
) -> None:
    await set_gate(bench, gate)
    requested = {"Origin": "https://chat.example", "Access-Control-Request-Method": methods.partition(",")[0]}
    status, headers, body = await get(bench, path, "OPTIONS", **requested)
    assert (status, headers["Allow"], body) == (204, methods, None)
    assert not cors(headers), "no page of another site may, unless the service says so"
    await nothing_moved(bench)
    for origin in ("https://chat.example", "*"):
        await bench.gate(gate, keys=KEYS, origins=[origin, "https://other.example:8443"])
        status, headers, _ = await get(bench, path, "OPTIONS", **requested)
        assert status == 204, "a browser sends no key with this question"
        assert cors(headers) == {
            "access-control-allow-origin": origin,
            "access-control-allow-methods": "GET, HEAD, POST",
            # The asterisk means every header but this one.
            "access-control-allow-headers": "*, Authorization",
            "access-control-max-age": "600",
        }
    stranger = requested | {"Origin": "https://chat.example.evil"}
    await bench.gate(gate, keys=KEYS, origins=["https://chat.example"])
    assert not cors((await get(bench, path, "OPTIONS", **stranger))[1])


async def test_cors_header_is_set_only_for_configured_origins(bench: Bench) -> None:
    """The fake answers as vLLM does, which lets every page."""
    origin = "https://chat.example"
    await bench.wake()
    assert not cors((await bench.ask("one", Origin=origin))[1])
    assert not cors((await get(bench, "/v1/models", Origin=origin))[1])
    await bench.gate(Gate.OPEN, origins=[origin], keys=KEYS)
    for headers in (
        (await bench.ask("two", Origin=origin, Authorization="Bearer sk-one"))[1],
        (await bench.ask("three", Origin=origin))[1],
        (await get(bench, "/v1/models", Origin=origin, Authorization="Bearer sk-one"))[1],
    ):
        assert cors(headers) == {"access-control-allow-origin": origin}
        assert headers["Vary"] == "origin"
    assert not cors((await bench.ask("four", Origin="null", Authorization="Bearer sk-one"))[1])


@pytest.mark.parametrize("gate", Gate)
@pytest.mark.parametrize("path", [ASKS, "/v1/responses", "/v1/audio/transcriptions"])
async def test_websocket_returns_405_and_wakes_no_model(bench: Bench, gate: Gate, path: str) -> None:
    await set_gate(bench, gate)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await bench.clients.ws_connect(bench.url + path)
    assert refused.value.status == 405
    await nothing_moved(bench)


async def test_model_list_of_missing_service_returns_404(bench: Bench) -> None:
    answer = await bench.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert error(answer) == (404, "not_found")
