"""Work queue: each object at most once and with one worker at a time; failed objects are retried later."""

import asyncio
import heapq
import random
import time
from collections import deque
from typing import NamedTuple

from daybreak.manifests.keys import Key

BACKOFF_SECONDS = (0.5, 300.0)
"""Minimum and maximum delay in seconds after consecutive failures of one key. Each delay doubles the previous
one, with jitter."""
AT_ONCE_SECONDS = 0.02
"""Requeue delay in seconds below which an object counts as requeued immediately."""
AT_ONCE_TIMES = 10
"""Maximum number of consecutive immediate requeues of an item without backoff. Decisions in steps need a
few."""

LONGEST_ASKED = 60.0
"""Maximum delay in seconds that a server may request."""


class Item(NamedTuple):
    """An object to reconcile."""

    kind: str
    """Name of the object's kind."""
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Queue:
    """Items that wait for a worker.

    An item that is added while it waits is not added again. An item that is added during its reconcile is
    reconciled once more afterwards. Thus no change is missed, and no two workers process the same item.
    """

    def __init__(self) -> None:
        self._ready: deque[Item] = deque()
        self._since: dict[Item, float] = {}
        """Time at which each ready item became ready, on the monotonic clock."""
        self._running: dict[Item, float] = {}
        self._again: set[Item] = set()
        self._due: dict[Item, float] = {}
        """Time at which a delayed item becomes ready."""
        self._heap: list[tuple[float, int, Item]] = []
        self._sequence = 0
        self._moved = 0.0
        """Time at which the last item was taken."""
        self._failures: dict[Item, int] = {}
        self._at_once: dict[Item, int] = {}
        """Number of consecutive immediate requeues of an item."""
        self._wakeup = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of ready items."""
        return len(self._ready)

    @property
    def running(self) -> int:
        """Number of items in progress."""
        return len(self._running)

    @property
    def idle(self) -> bool:
        """True if no item is ready or in progress."""
        return not self._ready and not self._running

    def oldest(self) -> float:
        """Return the age in seconds of the oldest ready item, or of the longest running one if older."""
        times = [*([self._since[self._ready[0]]] if self._ready else []), *self._running.values()]
        return time.monotonic() - min(times) if times else 0.0

    def stuck(self) -> float:
        """Return the seconds since an item was last taken, or since the longest running one was taken.

        Thousands of waiting items are load and no fault.
        """
        waits = [max(self._moved, self._since[self._ready[0]])] if self._ready else []
        times = [*waits, *self._running.values()]
        return time.monotonic() - min(times) if times else 0.0

    async def quiet(self) -> None:
        """Wait until no item is in progress."""
        await self._quiet.wait()

    def add(self, item: Item, after: float = 0.0) -> None:
        """Enqueue an item after a delay in seconds; of two such times, the earlier applies."""
        if after > 0:
            self._delay(item, after)
            return
        self._due.pop(item, None)
        if item in self._running:
            self._again.add(item)
        elif item not in self._since:
            self._since[item] = time.monotonic()
            self._ready.append(item)
            self._wakeup.set()

    async def take(self) -> Item:
        """Return the next item, which belongs to the caller until `done`."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        item = self._ready.popleft()
        del self._since[item]
        self._running[item] = self._moved = time.monotonic()
        self._quiet.clear()
        # This reconcile replaces a delayed one.
        self._due.pop(item, None)
        return item

    def done(self, item: Item, *, again_after: float | None = None) -> None:
        """Mark an item as reconciled, and requeue it after `again_after` seconds.

        An item that repeatedly requests an immediate requeue gets growing delays. Thus other items get a
        worker, and the operator can be probed and stopped.
        """
        self._failures.pop(item, None)
        if again_after is None or again_after >= AT_ONCE_SECONDS:
            self._at_once.pop(item, None)
        else:
            count = self._at_once[item] = self._at_once.get(item, 0) + 1
            if count > AT_ONCE_TIMES:
                again_after = min(1.0, AT_ONCE_SECONDS * 2.0 ** min(count - AT_ONCE_TIMES, 20))
        self._finish(item, again_after)

    def failed(self, item: Item, most: float = BACKOFF_SECONDS[1], least: float = 0.0) -> float:
        """Requeue a failed item with its own growing delay, and return the delay in seconds.

        The delay is at most `most` seconds, or at least `least` seconds if the server requests that.
        """
        count = self._failures[item] = self._failures.get(item, 0) + 1
        first = BACKOFF_SECONDS[0]
        pause: float = min(most, first * 2.0 ** min(count - 1, 20)) * random.uniform(0.75, 1.25)  # noqa: S311 -- jitter
        pause = max(pause, min(least, LONGEST_ASKED))
        if item in self._again:
            # The object has changed during the reconcile: retry soon, but never immediately, or a failure
            # could cause itself again.
            self._again.discard(item)
            pause = max(min(pause, first * 2), min(least, LONGEST_ASKED))
        self._finish(item, pause)
        return pause

    def _finish(self, item: Item, again_after: float | None) -> None:
        del self._running[item]
        if not self._running:
            self._quiet.set()
        if item in self._again:
            self._again.discard(item)
            self.add(item)
        elif again_after is not None:
            self.add(item, again_after)

    def _delay(self, item: Item, after: float) -> None:
        if item in self._since:
            return
        due = time.monotonic() + after
        if due >= self._due.get(item, float("inf")):
            return
        self._due[item] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, item))
        self._arm()

    def _arm(self) -> None:
        """Set the single timer to the next delayed item."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # superseded
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            pause = max(0.0, self._heap[0][0] - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self._heap and self._heap[0][0] <= now + 0.001:
            due, _, item = heapq.heappop(self._heap)
            if self._due.get(item) == due:
                self.add(item)
        self._arm()
