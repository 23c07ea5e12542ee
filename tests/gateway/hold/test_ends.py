"""How a request ends that is not answered by the model: in OpenAI's error shape."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench

CAP = 100_000


def code(body: Any) -> str:
    """Return the code of an error in OpenAI's shape."""
    assert set(body["error"]) == {"message", "type", "param", "code"}
    found: str = body["error"]["code"]
    return found


async def chunks(size: int) -> AsyncIterator[bytes]:
    """Yield a body of that many bytes, with a length that is not announced."""
    while size > 0:
        yield b"y" * min(size, 7000)
        size -= 7000


async def test_request_to_missing_service_returns_404(bench: Bench) -> None:
    status, _, body = await bench.ask("one")
    assert (status, code(body)) == (404, "not_found")


async def test_request_returns_429_if_hold_is_full(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, max_held=0, retry_after=7)
    status, headers, body = await bench.ask("one")
    assert (status, code(body), headers["Retry-After"]) == (429, "hold_full", "7")


async def test_request_above_max_held_returns_429(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, max_held=2)
    held = [asyncio.create_task(bench.ask(f"held-{number}")) for number in range(2)]
    await bench.until(lambda state: state.held == 2)
    status, headers, body = await bench.ask("third")
    assert (status, code(body), headers["Retry-After"]) == (429, "hold_full", "10")
    assert "2 requests are held" in body["error"]["message"]
    state = await bench.state()
    assert (state.arrivals, state.held, state.ends) == (3, 2, {"hold_full": 1})
    await bench.wake(max_held=2)
    assert [status for status, _, _ in await asyncio.gather(*held)] == [200, 200]
    assert bench.serve.observed == {"held-0": 1, "held-1": 1}


async def test_held_request_times_out_with_503(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED, hold_ms=100)
    status, headers, body = await bench.ask("one")
    assert (status, code(body), headers["Retry-After"]) == (503, "wake_timeout", "10")


async def test_held_and_new_requests_get_reason_of_failed_wake(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    reason = 'No weights at "s3://a;b%20\\c"\nLook there: éß'
    await bench.gate(Gate.FAILED, reason=reason)
    for status, _, body in (await asking, await bench.ask("two")):
        assert (status, code(body), body["error"]["message"]) == (503, "model_failed", reason)


async def test_held_request_returns_404_if_service_is_deleted(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    await bench.gateway.unset_gate("s0")
    assert (await asking)[0] == 404


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_passes_up_to_size_limit_and_returns_413_above(bench: Bench, chunked: bool) -> None:
    await bench.wake(max_body_bytes=CAP)
    for size in (CAP - 1, CAP):
        status, _, body = await bench.ask(f"r{size}", chunks(size) if chunked else b"y" * size)
        assert (status, body["bytes"]) == (200, size)
    reader, writer = await bench.connect()
    head = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {CAP + 1}"
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
    if chunked:
        writer.write(f"{CAP + 1:x}\r\n".encode() + b"y" * (CAP + 1))
    answer = await reader.readuntil(b"request_too_large")
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()


@pytest.mark.parametrize("path", ["/-/healthz", "/", "/v1/models/../../-/healthz", "/metrics", "/v1/batches"])
async def test_unsupported_path_returns_404(bench: Bench, path: str) -> None:
    await bench.wake()
    reader, writer = await bench.connect()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (await reader.readuntil(b'"not_found"')).startswith(b"HTTP/1.1 404")
    writer.close()


async def test_internal_headers_of_clients_are_dropped(bench: Bench) -> None:
    await bench.wake()
    await bench.ask("one", **{"X-Daybreak-Slot": "3", "x-daybreak-": "1"})
    assert bench.serve.headers["x-request-id"] == "one"
    assert not [name for name in bench.serve.headers if name.startswith("x-daybreak")]
