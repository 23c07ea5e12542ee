"""Simulated model for `lag`: it answers each request with the time at which the first byte arrived.

It runs in a separate process, so that no work of the client delays it. CLOCK_MONOTONIC is the same for all
processes of a machine.
"""

import asyncio
import re
import time

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Backend(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._text = b""
        self._first = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- it is one of TCP
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        if not self._text:
            self._first = time.monotonic_ns()
        self._text += data
        head, end, body = self._text.partition(b"\r\n\r\n")
        found = LENGTH.search(head)
        if end and len(body) >= (int(found[1]) if found else 0):
            self._text = b""
            answer = b"%d" % self._first
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))


async def main() -> None:
    """Listen on a free port, and print it."""
    server = await asyncio.get_running_loop().create_server(Backend, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
