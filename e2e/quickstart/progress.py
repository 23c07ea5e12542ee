"""One line for each step, with the time since the start, so that waiting is never silent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Prints steps with elapsed times, as `[ 1m05s] text`."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"[{_elapsed(time.monotonic() - self._start)}] {text}", flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print the step's beginning, and how long it took when it took a while."""
        self.say(f"{text} ...")
        begin = time.monotonic()
        yield
        took = time.monotonic() - begin
        if took >= 5:
            self.say(f"{text}: done in {_elapsed(took).strip()}")


def _elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:2d}m{rest:02d}s"
