"""The wire to a server: cut, so that its address refuses connections, or silent, as a dead node is."""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from typing import Any, Self

from daybreak.gateway.hold.servers import Server

_WAITING = 64
"""Maximum of connections that wait in the kernel. With few it answers by cookies, and then by RST."""


class Wire:
    """Relay of bytes to a server on the loopback and back, from a separate address.

    A silent wire carries nothing, and the kernel answers no attempt to connect: as with a node whose
    power or network has failed, no peer is notified.
    """

    def __init__(self, to: Server) -> None:
        self._to = to
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._fillers: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._socket = self._listening(0)
        self.address = Server(*self._socket.getsockname()[:2])

    @staticmethod
    def _listening(port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setblocking(False)
        made.bind(("127.0.0.1", port))
        made.listen(_WAITING)
        return made

    async def __aenter__(self) -> Self:
        self._accepting = self._spawn(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> None:
        """Say nothing from now on."""
        self._speaks.clear()
        self._accepting.cancel()
        # Enough of them that the kernel leaves the next one without an answer.
        self._socket.listen(1)
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(self._socket.getsockname())
            self._fillers.append(filler)

    def speak(self) -> None:
        """Carry on."""
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        self._socket.listen(_WAITING)
        self._speaks.set()
        self._accepting = self._spawn(self._accept())

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        self._socket.close()

    def mend(self) -> None:
        """Take connections again, at the same address."""
        self._socket = self._listening(self.address.port)
        self._accepting = self._spawn(self._accept())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            taken, _ = await loop.sock_accept(self._socket)
            self._spawn(self._carry(taken))

    async def _carry(self, taken: socket.socket) -> None:
        here = await asyncio.open_connection(sock=taken)
        self._writers.add(here[1])
        try:
            await self._speaks.wait()
            there = await asyncio.open_connection(self._to.host, self._to.port)
            self._writers.add(there[1])
            with contextlib.suppress(OSError):
                await asyncio.gather(self._pump(here[0], there[1]), self._pump(there[0], here[1]))
            there[1].close()
            self._writers.discard(there[1])
        finally:
            here[1].close()
            self._writers.discard(here[1])

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._speaks.wait()
            writer.write(data)
            await writer.drain()
        await self._speaks.wait()
        if writer.can_write_eof():
            writer.write_eof()
