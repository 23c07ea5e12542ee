"""The load of `make gpu-check`, against a local server that streams like vLLM."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.gpu.clients import Job, Lengths, body, run
from bench.gpu.load import percentile, summary
from bench.gpu.processes import Failed
from tests.gateway.ports import free_ports

Answer = Callable[[asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]
_PACE = 0.02


def _chunk(text: str) -> bytes:
    data = text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(document: object) -> bytes:
    return _chunk(f"data: {json.dumps(document)}\n\n")


async def _stream(writer: asyncio.StreamWriter, request: dict[str, Any], tokens: int) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(_event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    for _ in range(tokens):
        await asyncio.sleep(_PACE)
        writer.write(_event({"choices": [{"delta": {"content": " word"}}]}))
    writer.write(_event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}))
    writer.write(_chunk("data: [DONE]\n\n") + b"0\r\n\r\n")


async def _whole(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    await _stream(writer, request, request["max_tokens"])


async def _short(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    await _stream(writer, request, request["max_tokens"] - 1)


async def _refused(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")


async def _cut(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(_event({"choices": [{"delta": {"content": "half"}}]}))
    await writer.drain()
    writer.close()


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await answer(writer, json.loads(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    port = free_ports(1)
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield port
    finally:
        server.close()


async def _observe(answer: Answer, seconds: float = 2.5) -> tuple[dict[str, Any], Job]:
    async with _server(answer) as port:
        begin = time.monotonic()
        lengths = Lengths(6, 5, most=8)
        job = Job("127.0.0.1", port, "m", [0, 1, 2], [("a", 1), ("bc", 2)], begin, begin + seconds, lengths)
        observed = await run(job)
        # A late read of the stream does not shorten the time of an answer.
        assert all(one.last - one.sent >= one.tokens * _PACE for one in observed if not one.error)
        return summary(observed, begin, begin + seconds + 1), job


async def test_complete_answers_are_counted_and_timed() -> None:
    found, _ = await _observe(_whole)
    # A busy machine completes few requests, and reads chunks together that arrived apart.
    assert found["requests"] > 0
    assert found["errors"] == {}
    assert found["wrong_lengths"] == 0
    assert found["mean_tokens_in"] == 9
    # The first chunk contains only the role and is no token.
    assert found["ttft_p50_ms"] >= 1000 * _PACE
    assert found["tpot_p50_ms"] > 0


async def test_answer_of_wrong_length_is_counted() -> None:
    found, _ = await _observe(_short)
    assert found["wrong_lengths"] == found["requests"] > 0


@pytest.mark.parametrize(("answer", "error"), [(_refused, "status 503"), (_cut, "cut")])
async def test_failed_request_raises_error_with_its_cause(answer: Answer, error: str) -> None:
    with pytest.raises(Failed, match=error):
        await _observe(answer, seconds=1.5)


def test_request_body_is_the_same_for_same_seed() -> None:
    job = Job("h", 1, "m", [], [("a", 1), ("bc", 2)], 0, 0, Lengths())
    bodies = [body(job, random.Random(7))[0] for _ in range(2)]  # noqa: S311 - a load
    assert bodies[0] == bodies[1]


def test_drawn_lengths_have_expected_means() -> None:
    dice = random.Random(1)  # noqa: S311 - a load
    drawn = [Lengths(most=100_000).draw(dice) for _ in range(20_000)]
    assert sum(one for one, _ in drawn) / len(drawn) == pytest.approx(210, rel=0.03)
    assert sum(one for _, one in drawn) / len(drawn) == pytest.approx(114, rel=0.03)


def test_percentile_is_observed_value_and_zero_for_empty_list() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0, 2.0], 0.95) == 2.0
    assert percentile([], 0.5) == 0.0
