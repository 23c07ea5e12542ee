"""Body of a waiting request, and detection of its client's departure.

ASGI reports a departed client only to a call of `receive`, after the body. Therefore the body of a waiting
request is read, and passed to the app afterwards.
"""

import asyncio
from collections import deque

from daybreak_runtime.http.asgi import Message, Receive


class BodyStore:
    """Memory for the bodies of all waiting requests.

    Args:
        most_bytes: Total bytes. A request without remaining memory is not read while it waits; its client's
            departure is then noticed at its turn.
    """

    def __init__(self, most_bytes: int) -> None:
        self._free = most_bytes

    def take(self, size: int) -> None:
        """Count a received piece, which may exceed the limit."""
        self._free -= size

    def give_back(self, size: int) -> None:
        """Stop counting a piece."""
        self._free += size

    @property
    def full(self) -> bool:
        """True if no more may be read."""
        return self._free <= 0


class Waiting:
    """Waiting request, which stores its messages for the app.

    Args:
        receive: `receive` of the server.
        store: Store that counts bodies.
    """

    def __init__(self, receive: Receive, store: BodyStore) -> None:
        self._receive = receive
        self._store = store
        self._kept: deque[Message] = deque()
        self._size = 0
        self._next: asyncio.Task[Message] | None = None

    async def client_gone(self) -> None:
        """Read until the client has left."""
        while True:
            while self._store.full:  # noqa: ASYNC110 - rare: not worth an event at every body that goes
                await asyncio.sleep(0.25)
            message = await self._read()
            if message["type"] == "http.disconnect":
                return

    async def _read(self) -> Message:
        """Read the next message from the server, and store it for the app. A cancellation loses nothing."""
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
        """Receive for the app: first stored messages, then new ones."""
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
        """Release stored messages."""
        self._store.give_back(self._size)
        self._size = 0
        self._kept.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
