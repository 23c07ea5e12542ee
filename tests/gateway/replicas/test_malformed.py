"""Requests that are no HTTP, bodies that are no JSON, and servers that answer badly."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.fake_serve import BrokenServe, Manner

REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nConnection: close\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def error(answer: bytes) -> tuple[int, Any]:
    """Return the status and code of an answer in OpenAI's error shape."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    found = json.loads(body)["error"]
    assert set(found) == {"message", "type", "param", "code"}
    return int(head.split()[1]), found["code"]


@pytest.mark.parametrize("head_timeout", [1])
async def test_incomplete_head_times_out_with_408(bench: Bench) -> None:
    await bench.wake()
    assert (await bench.send(b"POST /v1/chat/completions HTTP/1.1\r\nHo")).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_malformed_http_returns_400(bench: Bench, noise: bytes) -> None:
    # HAProxy answers these before there is a request: with its built-in texts, which are fixed in 2.8.
    await bench.wake()
    assert (await bench.send(noise)).startswith(b"HTTP/1.1 400")
    assert (await bench.ask("after"))[0] == 200
    assert bench.serve.observed == {"after": 1}


async def test_malformed_chunk_returns_400_in_openai_format(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    reader, writer = await bench.connect()
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await bench.until(lambda state: state.held == 1)
    writer.write(b"zz\r\n")
    await bench.wake()
    assert error(await reader.read()) == (400, "bad_request")
    writer.close()


@pytest.mark.parametrize("stream_timeout", [1])
async def test_incomplete_body_returns_error_in_openai_format(bench: Bench) -> None:
    await bench.wake()
    # The gateway waited for the small body, and has begun to forward the large one to the model.
    assert error(await bench.send(REQUEST[:-1])) == (408, "request_timeout")
    assert not bench.serve.observed
    large = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nContent-Length: 40000\r\n\r\n{"
    assert error(await bench.send(large)) == (400, "bad_request")
    assert not bench.serve.whole


@pytest.mark.parametrize("stream_timeout", [1])
@pytest.mark.parametrize(
    ("manner", "expected"),
    [
        (Manner.CLOSES, (502, "bad_gateway")),
        (Manner.RUBBISH, (502, "bad_gateway")),
        (Manner.SILENT, (504, "gateway_timeout")),
    ],
)
async def test_broken_server_yields_openai_error_without_retry(
    bench: Bench, manner: Manner, expected: tuple[int, str]
) -> None:
    async with BrokenServe(manner) as broken, BrokenServe(manner) as other:
        await bench.gateway.set_servers("s0", [broken.address, other.address])
        await bench.gate(Gate.OPEN)
        await bench.until(lambda state: state.servers_up == 2)
        assert error(await bench.send(REQUEST)) == expected
        # Nothing is tried again that may have reached a server, at this one or another.
        assert broken.observed + other.observed == 1


async def test_interrupted_answer_is_cut_and_request_is_not_retried(bench: Bench) -> None:
    async with BrokenServe(Manner.RESETS) as broken:
        await bench.gateway.set_servers("s0", [broken.address])
        await bench.gate(Gate.OPEN)
        await bench.until(lambda state: state.servers_up == 1)
        assert (await bench.send(REQUEST)).endswith(b"\r\n\r\nsome")
        assert broken.observed == 1


@st.composite
def noise(draw: st.DrawFn) -> bytes:
    """Return a good request with some bytes taken out, put in or exchanged; or just bytes."""
    if draw(st.booleans()):
        return draw(st.binary(min_size=1, max_size=200))
    data = bytearray(REQUEST)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 3))] = draw(
            st.sampled_from([b"", b"\r", b"\n", b"\x00", b" ", b":", b"\xff", b"chunked", b"9", b"\r\n"])
        )
    return bytes(data)


@few
@given(data=noise())
@pytest.mark.parametrize("head_timeout", [1])
async def test_any_bytes_are_answered_or_rejected_and_next_request_succeeds(
    bench: Bench, data: bytes
) -> None:
    await bench.wake()
    try:
        answer = await bench.send(data, seconds=2)
    except TimeoutError:  # the body is shorter than announced: the client may still send the rest
        answer = b""
    assert not answer or answer.split(b" ", 2)[1] in (b"200", b"400", b"404", b"405", b"408", b"413", b"501")
    assert (await bench.ask("after"))[0] == 200


@few
@given(body=st.binary(max_size=3000).map(lambda body: body.replace(b"\0", b"0")))
async def test_invalid_json_body_is_forwarded_to_model(bench: Bench, body: bytes) -> None:
    await bench.wake()
    status, _, answer = await bench.ask("one", body)
    assert (status, answer["bytes"]) == (200, len(body))


async def test_a_body_in_many_pieces_arrives_whole(bench: Bench) -> None:
    await bench.wake()
    reader, writer = await bench.connect()
    writer.write(REQUEST.replace(b"Content-Length: 2", b"Content-Length: 300")[:-2])
    for _ in range(300):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0)
    assert (await reader.read()).endswith(b'"bytes": 300}')
    writer.close()
