"""The work queue: each LLMService at most once, one worker at a time, later again when it failed."""

import asyncio
import heapq
import random
import time
from collections import deque

from daybreak.kube.cache import Key

BACKOFF_SECONDS = (0.5, 300.0)
"""First and longest pause after failures in a row of one key; each doubles the one before, with jitter."""


class Queue:
    """Keys that wait for work.

    A key that is added while it waits is not added again. One that is added while it is worked on is worked
    on once more afterwards, so that no change is missed and no two workers hold the same key.
    """

    def __init__(self) -> None:
        self._ready: deque[Key] = deque()
        self._since: dict[Key, float] = {}
        """When each ready key became ready, on the monotonic clock."""
        self._running: dict[Key, float] = {}
        self._again: set[Key] = set()
        self._due: dict[Key, float] = {}
        """When a delayed key becomes ready."""
        self._heap: list[tuple[float, int, Key]] = []
        self._sequence = 0
        self._failures: dict[Key, int] = {}
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
        """Seconds since the longest waiting ready key became ready, or the longest running one was taken."""
        times = [*([self._since[self._ready[0]]] if self._ready else []), *self._running.values()]
        return time.monotonic() - min(times) if times else 0.0

    async def quiet(self) -> None:
        """Wait until nothing is worked on."""
        await self._quiet.wait()

    def add(self, key: Key, after: float = 0.0) -> None:
        """Have the key worked on, in `after` seconds; the earlier of two such times counts."""
        if after > 0:
            self._delay(key, after)
            return
        self._due.pop(key, None)
        if key in self._running:
            self._again.add(key)
        elif key not in self._since:
            self._since[key] = time.monotonic()
            self._ready.append(key)
            self._wakeup.set()

    async def take(self) -> Key:
        """The next key; it is ours until `done`."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = self._ready.popleft()
        del self._since[key]
        self._running[key] = time.monotonic()
        self._quiet.clear()
        # What was to be looked at later is looked at now.
        self._due.pop(key, None)
        return key

    def done(self, key: Key, *, again_after: float | None = None) -> None:
        """The key was worked on; look at it again in `again_after` seconds."""
        self._failures.pop(key, None)
        self._finish(key, again_after)

    def failed(self, key: Key, most: float = BACKOFF_SECONDS[1]) -> float:
        """The key's work failed: try again after its own growing pause. Returns that pause, in seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        first = BACKOFF_SECONDS[0]
        pause: float = min(most, first * 2.0 ** min(count - 1, 20)) * random.uniform(0.75, 1.25)  # noqa: S311 -- jitter
        if key in self._again:
            # Something has changed meanwhile: soon, but never at once, or a failure could feed itself.
            self._again.discard(key)
            pause = min(pause, first * 2)
        self._finish(key, pause)
        return pause

    def _finish(self, key: Key, again_after: float | None) -> None:
        del self._running[key]
        if not self._running:
            self._quiet.set()
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif again_after is not None:
            self.add(key, again_after)

    def _delay(self, key: Key, after: float) -> None:
        if key in self._since:
            return
        due = time.monotonic() + after
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        self._arm()

    def _arm(self) -> None:
        """Set the one timer to the next delayed key."""
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
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self.add(key)
        self._arm()
