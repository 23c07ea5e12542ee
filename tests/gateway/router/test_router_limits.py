"""Requests that the common address rejects before they reach a service, and forms."""

import asyncio
import json

import pytest

from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import MIB, Town, insist

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
BODY = b'{"model": "big"}'


def whole(extra: bytes = b"", path: bytes = b"/v1/chat/completions") -> bytes:
    """Return a request for the model big, with more headers."""
    head = HEAD.replace(b"/v1/chat/completions", path)
    return head + extra + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


async def test_head_above_size_limit_is_rejected(town: Town) -> None:
    await town.wake(0)
    large = b"A: %b\r\nB: %b\r\n" % (b"a" * 6000, b"b" * 6000)
    for path in (b"/v1/chat/completions", b"/v1/chat/completions?" + b"a" * 2000):
        assert (await town.send(whole(large, path))).startswith(b"HTTP/1.1 200")
    answer = await town.send(whole(b"A: " + b"a" * 12_500 + b"\r\n"))
    assert error(answer) == (431, "headers_too_large")
    # What does not fit the buffer is no request for HAProxy, which answers in its own words.
    for size in (70_000, 900_000):
        answer = await asyncio.to_thread(
            insist, town.router.config.port, whole(b"A: " + b"a" * size + b"\r\n")
        )
        assert answer.startswith(b"HTTP/1.1 400 ")
    many = b"".join(b"A%d: %b\r\n" % (number, b"a" * 200) for number in range(80))
    assert error(await town.send(whole(many))) == (431, "headers_too_large")
    answer = await town.send(whole(path=b"/v1/chat/completions?" + b"a" * 3000))
    assert error(answer) == (414, "url_too_long")
    assert town.serves[0].observed.total() == 2
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("router_settings", [{"head_timeout": 1}])
async def test_incomplete_body_returns_408(town: Town) -> None:
    await town.wake(0)
    assert error(await town.send(whole()[:-1])) == (408, "request_timeout")
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"
    assert error(await town.send(chunked)) == (408, "request_timeout")
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("router_settings", [{"body_timeout": 1, "stall_timeout": 3}])
async def test_incomplete_large_body_returns_408(town: Town) -> None:
    await town.wake(0)
    start = b'{"messages": "' + b"x" * 40_000
    assert error(await town.send(HEAD + b"Content-Length: 50000\r\n\r\n" + start)) == (408, "request_timeout")
    chunk = b"%x\r\n%b\r\n" % (len(start), start)
    assert error(await town.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)) == (
        408,
        "request_timeout",
    )
    assert await town.bytes_here() == 0


async def test_malformed_chunk_returns_400(town: Town) -> None:
    await town.wake(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", town.router.config.port)
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(0.2)
    writer.write(b"zz\r\n")
    assert error(await reader.read()) == (400, "bad_request")
    writer.close()
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("router_settings", [{"head_timeout": 1}])
@pytest.mark.parametrize(
    ("noise", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nBad header\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nHo", 408),
    ],
)
async def test_malformed_http_is_rejected(town: Town, noise: bytes, status: int) -> None:
    # In HAProxy's own words: it answers these before there is a request.
    await town.wake(0)
    assert (await town.send(noise)).startswith(b"HTTP/1.1 %d " % status)
    assert (await town.ask("after", {"model": "big"}))[0] == 200
    assert town.serves[0].observed == {"after": 1}


@pytest.mark.parametrize("router_settings", [{"budget_bytes": 3 * MIB}])
async def test_body_above_remaining_budget_returns_429(town: Town) -> None:
    large = {"messages": [{"role": "user", "content": "x" * MIB}], "model": "tiny"}
    held = [asyncio.create_task(town.ask(f"held-{number}", large)) for number in range(2)]
    await town.until(1, lambda state: state.held == 2)
    length = len(json.dumps(large))
    assert await town.bytes_here() == 2 * length
    assert error(await town.insist(json.dumps(large).encode())) == (429, "queue_full")
    # A small one still fits, and so does a large one once the others have been answered.
    small = asyncio.create_task(town.ask("small", {"model": "tiny"}))
    await town.until(1, lambda state: state.held == 3)
    await town.wake(1)
    assert [status for status, _ in await asyncio.gather(*held, small)] == [200] * 3
    assert (await town.ask("after", large))[0] == 200
    assert await town.bytes_here() == 0


@pytest.mark.parametrize("boundary", [b"zzz", b'"z z"'])
@pytest.mark.parametrize("first", [True, False])
async def test_a_form_goes_to_the_service_of_its_model(town: Town, boundary: bytes, first: bool) -> None:
    await town.wake(1)
    line = b"--" + boundary.strip(b'"')
    sound = line + b'\r\nContent-Disposition: form-data; name="file"; filename="model"\r\n\r\n'
    sound += b'\x00\xff name="model"\r\n\r\nbig' * 10_000 + b"\r\n"
    model = line + b'\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n'
    body = (model + sound if first else sound + model) + line + b"--\r\n"
    head = HEAD.replace(b"/v1/chat/completions", b"/v1/audio/transcriptions") + b"X-Request-Id: sound\r\n"
    head += b"Content-Type: multipart/form-data; boundary=%b\r\nContent-Length: %d\r\n\r\n"
    answer = await town.send(head % (boundary, len(body)) + body)
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"id": "sound", "bytes": len(body)}
    assert town.serves[1].whole == {"sound": 1}


async def test_form_without_model_returns_400(town: Town) -> None:
    path = b"/v1/audio/transcriptions"
    assert error(await town.send(whole(path=path))) == (400, "invalid_body")
    form = b"Content-Type: multipart/form-data; boundary=zzz\r\n"
    assert error(await town.send(whole(form, path))) == (400, "model_missing")
