"""Hostile clients, on separate connections, from a separate loopback address."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

STRANGER = "127.0.0.2"
"""Source address of hostile clients; honest ones use 127.0.0.1."""
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


class Crowd:
    """Connections from one address that stay open until the crowd leaves."""

    def __init__(self, port: int, source: str = STRANGER) -> None:
        self._port = port
        self._source = source
        self.sockets: list[socket.socket] = []

    async def join(self, data: bytes = b"") -> socket.socket:
        """Open one more connection and send the bytes; bytes that the other side does not accept are left."""
        one = socket.socket()
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind((self._source, 0))
        self.sockets.append(one)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(5):
                await loop.sock_connect(one, ("127.0.0.1", self._port))
                await loop.sock_sendall(one, data)
        except (ConnectionError, TimeoutError):
            pass
        return one

    async def all_join(self, count: int, data: bytes = b"") -> None:
        """So many more, at once."""
        await asyncio.gather(*(self.join(data) for _ in range(count)))

    def leave(self) -> None:
        """Close all."""
        for one in self.sockets:
            one.close()
        self.sockets.clear()


@asynccontextmanager
async def crowd(port: int, source: str = STRANGER) -> AsyncIterator[Crowd]:
    """Yield a crowd of connections that are closed at the end."""
    found = Crowd(port, source)
    try:
        yield found
    finally:
        found.leave()


async def answer_of(one: socket.socket, seconds: float = 60) -> bytes:
    """Return all bytes that arrive on a connection until it is closed."""
    loop = asyncio.get_running_loop()
    found = b""
    async with asyncio.timeout(seconds):
        try:
            while piece := await loop.sock_recv(one, 65536):
                found += piece
        except ConnectionError:
            pass
    return found


def resident(*pids: int) -> int:
    """Return the memory of processes in bytes."""
    status = "".join(Path(f"/proc/{pid}/status").read_text() for pid in pids)
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
