"""Closed loop of HTTP requests over kept-alive connections, with little client work per request."""

import asyncio
import time
from typing import Any


async def load(port: int, path: str, body: bytes, clients: int, seconds: float) -> dict[str, Any]:
    """Return the requests/s and latencies of requests that began after the first tenth of the time.

    Raises:
        RuntimeError: An answer is not 200.
    """
    request = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    began = time.monotonic()
    counted, until = began + seconds / 10, began + seconds
    latencies: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while (start := time.monotonic()) < until:
                writer.write(request)
                await _answer(reader)
                if start >= counted:
                    latencies.append(time.monotonic() - start)
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.monotonic() - counted
    latencies.sort()
    return {
        "requests": len(latencies),
        "requests_per_second": len(latencies) / took,
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[min(len(latencies) - 1, int(0.99 * len(latencies)))],
    }


async def _answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    length = next((line[15:] for line in lines if line.startswith("content-length:")), None)
    if length is None:
        raise RuntimeError(f"an answer has no length: {head}")
    body = await reader.readexactly(int(length))
    if " 200 " not in lines[0]:
        raise RuntimeError(f"{lines[0]}: {body[:300].decode(errors='replace')}")
