"""The present, and the moments on which a decision depends: one expression is threshold and deadline."""

from datetime import datetime, timedelta


class Moments:
    """Compares moments with the present, and keeps the next one that is still to come.

    A decision that asks `reached` for each of its thresholds knows when time alone may change it.

    Attributes:
        now: The present.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._next: datetime | None = None

    def reached(self, moment: datetime) -> bool:
        """Return whether a moment is over; if not, the decision is due again then."""
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    @property
    def look_again(self) -> timedelta | None:
        """How long until the next of these moments; None: none is still to come."""
        return None if self._next is None else self._next - self.now
