"""The work queue: each object at most once, one worker at a time, later again when it failed."""

import asyncio
import heapq
import random
import time
from collections import deque
from typing import NamedTuple

from daybreak.manifests.keys import Key

BACKOFF_SECONDS = (0.5, 300.0)
"""First and longest pause after failures in a row of one key; each doubles the one before, with jitter."""
AT_ONCE_SECONDS = 0.02
"""An object that asks to be looked at again sooner than that asks for it at once."""
AT_ONCE_TIMES = 10
"""How often in a row an item is looked at again at once: what is decided step by step needs a few."""

LONGEST_ASKED = 60.0
"""Longest pause that a server is granted, in seconds."""


class Item(NamedTuple):
    """An object to be reconciled."""

    kind: str
    """Name of its kind."""
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Queue:
    """Items that wait for work.

    An item that is added while it waits is not added again. One that is added while it is worked on is worked
    on once more afterwards, so that no change is missed and no two workers hold the same item.
    """

    def __init__(self) -> None:
        self._ready: deque[Item] = deque()
        self._since: dict[Item, float] = {}
        """When each ready item became ready, on the monotonic clock."""
        self._running: dict[Item, float] = {}
        self._again: set[Item] = set()
        self._due: dict[Item, float] = {}
        """When a delayed item becomes ready."""
        self._heap: list[tuple[float, int, Item]] = []
        self._sequence = 0
        self._moved = 0.0
        """When the last item was taken."""
        self._failures: dict[Item, int] = {}
        self._at_once: dict[Item, int] = {}
        """How often in a row an item asked to be looked at again at once."""
        self._wakeup = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Keys that are ready."""
        return len(self._ready)

    @property
    def running(self) -> int:
        """Keys that are worked on."""
        return len(self._running)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or worked on."""
        return not self._ready and not self._running

    def oldest(self) -> float:
        """Seconds since the longest waiting ready item became ready, or the longest running one was taken."""
        times = [*([self._since[self._ready[0]]] if self._ready else []), *self._running.values()]
        return time.monotonic() - min(times) if times else 0.0

    def stuck(self) -> float:
        """Seconds since anything was taken of what waits, or since the longest running item was taken.

        Thousands that wait for their turn are work, and no fault.
        """
        waits = [max(self._moved, self._since[self._ready[0]])] if self._ready else []
        times = [*waits, *self._running.values()]
        return time.monotonic() - min(times) if times else 0.0

    async def quiet(self) -> None:
        """Wait until nothing is worked on."""
        await self._quiet.wait()

    def add(self, item: Item, after: float = 0.0) -> None:
        """Have the item worked on, in `after` seconds; the earlier of two such times counts."""
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
        """The next item; it is ours until `done`."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        item = self._ready.popleft()
        del self._since[item]
        self._running[item] = self._moved = time.monotonic()
        self._quiet.clear()
        # What was to be looked at later is looked at now.
        self._due.pop(item, None)
        return item

    def done(self, item: Item, *, again_after: float | None = None) -> None:
        """The item was worked on; look at it again in `again_after` seconds.

        One that asks for that at once over and over waits ever longer: the others have their turn, and the
        operator can be asked and ended.
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
        """The item's work failed: try again after its own growing pause, of at most `most` seconds, or after
        `least` where the server asks for that. Returns the pause, in seconds."""
        count = self._failures[item] = self._failures.get(item, 0) + 1
        first = BACKOFF_SECONDS[0]
        pause: float = min(most, first * 2.0 ** min(count - 1, 20)) * random.uniform(0.75, 1.25)  # noqa: S311 -- jitter
        pause = max(pause, min(least, LONGEST_ASKED))
        if item in self._again:
            # Something has changed meanwhile: soon, but never at once, or a failure could feed itself.
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
        """Set the one timer to the next delayed item."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # overtaken
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
