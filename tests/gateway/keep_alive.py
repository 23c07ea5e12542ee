"""Clients that keep their connections, and count the requests that a closing connection loses."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable

BODY_BYTES = 50_000


def chat(model: str, size: int = BODY_BYTES) -> bytes:
    """Return a chat request of about that many bytes that names its model first."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "x" * size}]}).encode()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, body: bytes
) -> tuple[int, bool]:
    """Send one request. Returns the status and whether the response announces the end of the connection.

    Raises OSError and IncompleteReadError if the connection ends before the response does.
    """
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {name}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    await reader.readexactly(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers.get("connection") == "close"


class Clients:
    """Clients that send one request after the other.

    Args:
        body: The body of each request.
        port: The port of the service.
        address: Returns the address of the pod that a new connection reaches, as a Service does.
        think: Seconds between a response and the next request.
    """

    def __init__(self, body: bytes, port: int, address: Callable[[], str], think: float = 0.01) -> None:
        self._body = body
        self._port = port
        self._address = address
        self._think = think
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []
        self.statuses: Counter[int] = Counter()
        self.lost: list[str] = []
        """Errors of requests without a response."""

    def start(self, number: int, name: str) -> None:
        """Start that number of clients."""
        self._tasks += [asyncio.create_task(self._run(f"{name}-{each}")) for each in range(number)]

    async def stop(self) -> None:
        """Let each finish its request."""
        self._over = True
        await asyncio.gather(*self._tasks)

    async def _run(self, name: str) -> None:
        sent = 0
        while not self._over:
            try:
                reader, writer = await asyncio.open_connection(self._address(), self._port)
            except OSError as error:
                self.lost.append(f"{name}: {error!r}")
                return
            try:
                # Like a pool, a client does not use a connection whose end it has seen.
                while not (self._over or reader.at_eof()):
                    sent += 1
                    status, closes = await exchange(reader, writer, f"{name}-{sent}", self._body)
                    self.statuses[status] += 1
                    if closes:
                        break
                    await asyncio.sleep(self._think)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.lost.append(f"{name}-{sent}: {error!r}")
            finally:
                writer.close()
