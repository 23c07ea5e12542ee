"""Current time, and the times on which a decision depends: one expression is both threshold and deadline."""

from datetime import datetime, timedelta


class Moments:
    """Comparison of times with the current time, which records the next future one.

    A decision that calls `reached` for each of its thresholds knows when time alone may change it.

    Attributes:
        now: The current time.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._next: datetime | None = None

    def reached(self, moment: datetime) -> bool:
        """Return True if a time has passed; otherwise, record it as a time to decide again."""
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    @property
    def look_again(self) -> timedelta | None:
        """Return the time until the next recorded threshold, or None if there is none."""
        return None if self._next is None else self._next - self.now
