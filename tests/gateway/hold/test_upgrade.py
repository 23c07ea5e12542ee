"""Clients that offer h2c on plain HTTP, as the JDK's does: their body arrives whole."""

import asyncio
import re

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.town import Town

SETTINGS = "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"
OFFER = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: {SETTINGS}\r\n"


def offering(name: str, body: bytes, chunked: bool) -> bytes:
    """Return a request that offers h2c."""
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {name}\r\n{OFFER}{length}\r\n\r\n"
    return head.encode() + (b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body)


async def exchanged(port: int, *requests: bytes) -> list[int]:
    """Send requests over one connection, one after the other. Returns the statuses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    statuses = []
    try:
        for request in requests:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head.lower())
            assert length, head
            await reader.readexactly(int(length[1]))
            statuses.append(int(head.split()[1]))
    finally:
        writer.close()
    return statuses


@pytest.mark.parametrize("size", [0, 50_000])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("asleep", [False, True])
async def test_h2c_offer_is_answered_over_http_1(
    bench: Bench, asleep: bool, chunked: bool, size: int
) -> None:
    await bench.wake()
    await bench.gate(Gate.CLOSED if asleep else Gate.OPEN)
    bench.serve.bodies = {}
    body = b'{"model": "big", "user": "%b"}' % (b"x" * size)
    requests = [offering(name, body, chunked) for name in ("one", "two")]
    asking = asyncio.create_task(exchanged(bench.gateway.config.first_port, *requests))
    if asleep:
        await bench.until(lambda state: state.held == 1)
        await bench.gate(Gate.OPEN)
    assert await asking == [200, 200]
    assert bench.serve.bodies == {"one": body, "two": body}
    assert "upgrade" not in bench.serve.headers
    assert "upgrade" not in bench.serve.headers.get("connection", "").lower()
    assert (await bench.ask("plain", body))[0] == 200


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
async def test_common_address_answers_h2c_offer_over_http_1(town: Town, chunked: bool, late: bool) -> None:
    await town.wake(0)
    serve = town.serves[0]
    serve.bodies = {}
    text = b'"user": "%b"' % (b"x" * 50_000)
    body = b'{%b, "model": "big"}' % text if late else b'{"model": "big", %b}' % text
    requests = [offering(name, body, chunked) for name in ("one", "two")]
    assert await exchanged(town.router.config.port, *requests) == [200, 200]
    assert serve.bodies == {"one": body, "two": body}
    assert "upgrade" not in serve.headers
    assert "upgrade" not in serve.headers.get("connection", "").lower()
