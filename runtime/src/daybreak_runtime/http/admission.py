"""A limit on requests in progress, and a queue of those that wait for their turn."""

import asyncio
from collections import deque
from collections.abc import Callable


class QueueFull(Exception):
    """As many requests wait as may."""


class Closed(Exception):
    """Nobody is let in any more."""


class Admission:
    """Lets requests in one by one, first come first served, and never more than the limit at once.

    It belongs to one event loop.

    Args:
        limit: Most requests in progress; asked each time, so that it may change.
        most_waiting: Most requests that wait; likewise.
    """

    def __init__(self, limit: Callable[[], int], most_waiting: Callable[[], int]) -> None:
        self._limit = limit
        self._most_waiting = most_waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    def try_enter(self) -> bool:
        """Take a place if one is free and nobody was there before."""
        if self._closed or self._queue or self.running >= self._limit():
            return False
        self.running += 1
        return True

    async def enter(self) -> None:
        """Take a place, as soon as it is this request's turn.

        A caller that is cancelled leaves the queue.

        Raises:
            QueueFull: Too many wait already.
            Closed: It was closed before the turn came.
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
                # Its turn came in the same moment: the place goes to the next.
                self.leave()
            elif turn in self._queue:
                self._queue.remove(turn)
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.running -= 1
        self.let_in()

    def let_in(self) -> None:
        """Let in as many as there are places: after one has left, or when the limit has grown."""
        while self._queue and self.running < self._limit():
            turn = self._queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def close(self) -> None:
        """Let nobody in any more; those who wait are told."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(Closed())
