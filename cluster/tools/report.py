"""Progress on the terminal: one line per step, with its duration and the time since the start."""

import contextlib
import sys
import time
from collections.abc import Iterator


class Report:
    """Printer of finished steps; a long step is also announced when it starts."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @contextlib.contextmanager
    def step(self, what: str, expect_seconds: float = 0.0) -> Iterator[None]:
        """Time a step.

        Args:
            what: Name of the step, for the line.
            expect_seconds: Expected duration; from 20 s on, the step is announced when it starts.
        """
        if expect_seconds >= 20:
            self.write(f"{what} ... (the first time about {_duration(expect_seconds)})")
        begin = time.monotonic()
        yield
        self.write(f"{what:<44} {time.monotonic() - begin:7.1f} s")

    def write(self, text: str) -> None:
        """Print one line with the time since the start."""
        print(f"[{_clock(time.monotonic() - self._start)}] {text}", flush=True, file=sys.stdout)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
