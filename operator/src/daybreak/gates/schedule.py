"""Windows of a schedule that keep a service awake, and the times at which they start and end."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from daybreak.api.gates.schedule_rules import next_start
from daybreak.api.gates.sleep import AwakeWindow
from daybreak.api.schema.scalars import parse_duration


def inside(windows: Sequence[AwakeWindow], now: datetime) -> bool:
    """Return True if any window has started and not ended. An invalid window never starts."""
    return any(start is not None and start <= now for start in (_unended(window, now) for window in windows))


def next_change(windows: Sequence[AwakeWindow], now: datetime) -> timedelta | None:
    """Return the time until the next window starts or ends, or None if none does.

    A window may end and restart at once.
    """
    pauses = []
    for window in windows:
        start = _unended(window, now)
        if start is not None:
            begun = start <= now
            pauses.append((start + parse_duration(window.duration) if begun else start) - now)
    return min(pauses, default=None)


def _unended(window: AwakeWindow, now: datetime) -> datetime | None:
    """Return the earliest start whose end is in the future. A duration is elapsed time, not clock time."""
    try:
        return next_start(window, now.astimezone(UTC) - parse_duration(window.duration))
    except ValueError:
        return None
