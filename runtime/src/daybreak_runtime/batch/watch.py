"""Ending a batch in which nothing happens: a row that ends its engine each time would keep it for ever.

What has ended so is begun anew by KubeRay, as often as the batch's `retries` say, and then it has failed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

STILL_SECONDS = 3600.0
"""How long no row may be answered; the start of an engine, with its weights, is shorter."""
EXIT_STATUS = 3
log = logging.getLogger("daybreak.batch")


class Watch:
    """Calls `end` when it was not touched for so long.

    Args:
        seconds: How long.
        end: What is called, in another thread.
    """

    def __init__(
        self, seconds: float = STILL_SECONDS, end: Callable[[], None] = lambda: os._exit(EXIT_STATUS)
    ) -> None:
        self._seconds = seconds
        self._end = end
        self._touched = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="watch").start()

    def touch(self) -> None:
        """Something has happened."""
        self._touched = time.monotonic()

    def close(self) -> None:
        """Watch no more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(max(0.01, self._touched + self._seconds - time.monotonic())):
            if time.monotonic() - self._touched >= self._seconds:
                log.error("no row was answered for %g s: the batch ends, and is begun anew", self._seconds)
                self._end()
                return
