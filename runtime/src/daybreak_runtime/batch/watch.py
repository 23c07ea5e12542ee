"""Watchdog that ends a batch without progress: a row that always ends its engine would block it forever.

KubeRay restarts the ended job up to the batch's `retries`, and then the batch has failed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

STILL_SECONDS = 3600.0
"""Maximum seconds without an answered row; the start of an engine, with its weights, is shorter."""
EXIT_STATUS = 3
log = logging.getLogger("daybreak.batch")


class Watch:
    """Watchdog that calls `end` after a time without `touch`.

    Args:
        seconds: That time.
        end: Function that is called in another thread.
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
        """Record progress."""
        self._touched = time.monotonic()

    def close(self) -> None:
        """Stop watching."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(max(0.01, self._touched + self._seconds - time.monotonic())):
            if time.monotonic() - self._touched >= self._seconds:
                log.error("No row was answered for %g s: the batch restarts", self._seconds)
                self._end()
                return
