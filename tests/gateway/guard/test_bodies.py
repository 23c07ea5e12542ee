"""Fields that the model must not get from a client, in requests that pass the gateway."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.town import insist

BAD = {"model": "big", "chat_template_kwargs": {"chat_template": "{{ x }}"}}
FIELD = "chat_template_kwargs.chat_template"


def large(size: int = 200_000) -> bytes:
    """Return a body with the bad field long after its first bytes."""
    return json.dumps({"messages": [{"content": "x" * size}], **BAD}).encode()


async def pieces(body: bytes, size: int = 5000) -> AsyncIterator[bytes]:
    """Yield the body without its length."""
    for at in range(0, len(body), size):
        yield body[at : at + size]
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (BAD, FIELD),
        ({"n": 17}, "n"),
        ({"chat_template": "x"}, "chat_template"),
        ({"mm_processor_kwargs": {"a": 1}}, "mm_processor_kwargs"),
        ({"media_io_kwargs": {"a": 1}}, "media_io_kwargs"),
    ],
)
async def test_rejected_body_is_neither_held_nor_counted_as_arrival(
    bench: Bench, body: dict[str, object], param: str
) -> None:
    await bench.gate(Gate.CLOSED)
    status, _, answer = await bench.ask("one", json.dumps(body).encode(), **{"Content-Type": "text/plain"})
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert (answer["error"]["param"], answer["error"]["code"]) == (param, "invalid_body")
    state = await bench.state()
    assert (state.arrivals, state.held, state.ends) == (0, 0, {"refused": 1})


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("held", [False, True])
async def test_body_with_forbidden_field_after_long_text_is_rejected(
    bench: Bench, chunked: bool, held: bool
) -> None:
    await bench.wake()
    if held:
        await bench.gate(Gate.CLOSED)
    body = large()
    asking = asyncio.create_task(bench.ask("bad", pieces(body) if chunked else body))
    if held:
        await bench.until(lambda state: state.held == 1)
        await bench.gate(Gate.OPEN)
    status, _, answer = await asking
    assert (status, answer["error"]["param"]) == (400, FIELD)
    await bench.until(lambda state: state.in_flight == 0)
    good = json.dumps({"messages": [{"content": "x" * 200_000}], "n": 16}).encode()
    assert (await bench.ask("good", pieces(good) if chunked else good))[0] == 200
    assert bench.serve.whole == {"good": 1}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("cut", range(-4, 20, 3))
async def test_forbidden_field_is_rejected_wherever_first_part_of_body_ends(
    bench: Bench, held: bool, cut: int
) -> None:
    await bench.wake()
    if held:
        await bench.gate(Gate.CLOSED)
    before, after = (
        b'{"messages": [{"content": "\\""}], ',
        b'"chat_template": "x", "pad": "%s"}' % (b"x" * 60_000),
    )
    body, at = before + after, len(before) + cut
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nConnection: close\r\n"
    reader, writer = await bench.connect()
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:at])
    await bench.until(lambda state: state.held == 1 if held else state.in_flight == 1)
    if held:
        await bench.gate(Gate.OPEN)
    writer.write(body[at:])
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    assert not bench.serve.whole
    writer.close()


async def test_forbidden_field_is_rejected_if_small_body_arrives_after_head(bench: Bench) -> None:
    await bench.wake()
    for turn in range(20):
        body = json.dumps(BAD).encode()
        reader, writer = await bench.connect()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        # Sometimes before the gateway has read the head, sometimes after it.
        await asyncio.sleep(turn / 1000)
        writer.write(body)
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
    assert not bench.serve.whole


async def test_body_with_too_many_fields_is_rejected(bench: Bench) -> None:
    await bench.wake()
    body = b"{" + b'"stop":[],' * 100_000 + b'"stop":1}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nConnection: close\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    answer = await asyncio.to_thread(insist, bench.gateway.config.first_port, head + length + body)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"The request body has too many fields or list items. Send a smaller body."' in answer
    assert not bench.serve.whole


async def test_audio_body_is_forwarded_without_field_check(bench: Bench) -> None:
    await bench.wake()
    body = b"RIFF\0\0\0" + json.dumps(BAD).encode()
    assert (await bench.ask("one", body, "/v1/audio/transcriptions"))[0] == 200
