"""Whether a schedule keeps a service awake at a time, and until when that stays so."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from daybreak.api.gates.schedule_rules import next_start
from daybreak.api.gates.sleep import AwakeWindow
from daybreak.api.schema.scalars import parse_duration


def inside(windows: Sequence[AwakeWindow], now: datetime) -> bool:
    """Whether any of them has begun and not ended. One that cannot be read counts as never beginning."""
    return any(start is not None and start <= now for start in (_unended(window, now) for window in windows))


def next_change(windows: Sequence[AwakeWindow], now: datetime) -> timedelta | None:
    """How long until one of them begins or ends; None: never. It may end and be under way again at once."""
    pauses = []
    for window in windows:
        start = _unended(window, now)
        if start is not None:
            begun = start <= now
            pauses.append((start + parse_duration(window.duration) if begun else start) - now)
    return min(pauses, default=None)


def _unended(window: AwakeWindow, now: datetime) -> datetime | None:
    """The earliest start whose end is still to come; a duration is time that passes, not clock time."""
    try:
        return next_start(window, now.astimezone(UTC) - parse_duration(window.duration))
    except ValueError:
        return None
