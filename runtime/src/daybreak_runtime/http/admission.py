"""Limit on concurrent requests, and a queue of waiting ones."""

import asyncio
from collections import deque
from collections.abc import Callable


class QueueFull(Exception):
    """The queue is full."""


class Closed(Exception):
    """No request is admitted any longer."""


class Admission:
    """Admission of requests one by one, first come first served, up to the limit.

    It belongs to one event loop.

    Args:
        limit: Function that returns the maximum number of concurrent requests, which may change.
        most_waiting: Function that returns the maximum number of waiting requests, which may change.
    """

    def __init__(self, limit: Callable[[], int], most_waiting: Callable[[], int]) -> None:
        self._limit = limit
        self._most_waiting = most_waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._queue)

    def try_enter(self) -> bool:
        """Take a place if one is free and no request waits. Returns True if it was taken."""
        if self._closed or self._queue or self.running >= self._limit():
            return False
        self.running += 1
        return True

    async def enter(self) -> None:
        """Take a place when it is the request's turn.

        A canceled caller leaves the queue.

        Raises:
            QueueFull: Too many requests wait already.
            Closed: It was closed before the turn.
        """
        if self._closed:
            raise Closed
        if self.try_enter():
            return
        if len(self._queue) >= self._most_waiting():
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # Its turn came at the same time: the place goes to the next request.
                self.leave()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def leave(self) -> None:
        """Release a place."""
        self.running -= 1
        self.let_in()

    def let_in(self) -> None:
        """Admit requests to all free places: after one has left, or when the limit has grown."""
        while self._queue and self.running < self._limit():
            turn = self._queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def close(self) -> None:
        """Admit no more requests, and reject the waiting ones."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(Closed())
