"""Ports of the loopback for tests.

A port is free until its server listens, which takes seconds, and by then another process may use it.
Therefore nothing else uses these: clients get theirs above (32768 and up), control planes theirs from
`cluster.tools.ports` (20000 and up), and each process of pytest-xdist has a part of the rest, through which
it goes round.
"""

import os
import random

from cluster.tools.ports import is_free

FIRST, LAST = 11000, 19999


class Ports:
    """The part of one process."""

    def __init__(self, number: int, processes: int) -> None:
        size = (LAST + 1 - FIRST) // processes
        self.range = range(FIRST + number * size, FIRST + (number + 1) * size)
        # Two runs side by side begin at different places.
        self._next = random.choice(self.range)  # noqa: S311

    def take(self, count: int) -> int:
        """Return the first of `count` free ports in a row. Goes round the whole part once."""
        for _ in self.range:
            first = self._next if self._next + count <= self.range.stop else self.range.start
            self._next = first + count
            for port in range(first, first + count):
                if not is_free(port):
                    self._next = port + 1
                    break
            else:
                return first
        raise RuntimeError(f"no {count} free ports in a row between {self.range[0]} and {self.range[-1]}")


_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
_MINE = Ports(int(_WORKER.removeprefix("gw")), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def free_ports(count: int) -> int:
    """Return the first of `count` free ports in a row, of this process's part."""
    return _MINE.take(count)
