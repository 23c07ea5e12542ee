"""The body of a request that waits for its turn, and the sign that its client has gone.

ASGI tells of a client that leaves only when somebody receives, and behind the body. So while a request waits
its body is taken in, and given to the app afterwards.
"""

import asyncio
from collections import deque

from daybreak_runtime.http.asgi import Message, Receive


class BodyStore:
    """Memory for the bodies of all requests that wait.

    Args:
        most_bytes: How much there is. A request for which nothing is left is not read on while it waits; that
            its client has gone is then noticed when its turn comes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._free = most_bytes

    def take(self, size: int) -> None:
        """Count a piece that has come; it may be the one that goes beyond the limit."""
        self._free -= size

    def give_back(self, size: int) -> None:
        """Count it no longer."""
        self._free += size

    @property
    def full(self) -> bool:
        """Whether nothing more may be read."""
        return self._free <= 0


class Waiting:
    """One request that waits: reads its messages, and hands them on later.

    Args:
        receive: The server's.
        store: Where bodies are counted.
    """

    def __init__(self, receive: Receive, store: BodyStore) -> None:
        self._receive = receive
        self._store = store
        self._kept: deque[Message] = deque()
        self._size = 0
        self._next: asyncio.Task[Message] | None = None

    async def client_gone(self) -> None:
        """Read on until the client has gone."""
        while True:
            while self._store.full:  # noqa: ASYNC110 - rare: not worth an event at every body that goes
                await asyncio.sleep(0.25)
            message = await self._read()
            if message["type"] == "http.disconnect":
                return

    async def _read(self) -> Message:
        """The next message from the server, kept for the app. Nothing is lost when this is cancelled."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._receive())
        message = await asyncio.shield(self._next)
        self._next = None
        self._kept.append(message)
        size = len(message.get("body", b""))
        self._size += size
        self._store.take(size)
        return message

    async def receive(self) -> Message:
        """Receive, for the app: first what was kept, then what comes."""
        if self._kept:
            message = self._kept.popleft()
            size = len(message.get("body", b""))
            self._size -= size
            self._store.give_back(size)
            return message
        if self._next is not None:
            pending = self._next
            message = await asyncio.shield(pending)
            if self._next is pending:
                self._next = None
            return message
        return await self._receive()

    def close(self) -> None:
        """Give back what was not handed on."""
        self._store.give_back(self._size)
        self._size = 0
        self._kept.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
