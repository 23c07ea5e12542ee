"""Schedules (`sleep.schedule`, `schedule` of a benchmark): next start, and validation.

If clocks skip a start in spring, it comes immediately after the clock change. If clocks show a start twice in
autumn, only the first one counts. A start that recurs within the day (a star in the minutes or hours) follows
elapsed time. Debian's cron works in the same way.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from daybreak.api.common import engine_args

_FIELDS = 5
_WRITE_CRON = "write minute, hour, day of month, month and day of week, such as 0 8 * * MON-FRI"
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Time from which the check looks for a start, to detect a schedule without any."""


class Recurring(Protocol):
    """Schedule with recurring starts."""

    @property
    def start(self) -> str:
        """Cron expression of five fields."""
        ...

    @property
    def time_zone(self) -> str:
        """Time zone of `start`."""
        ...


def next_start(window: Recurring, after: datetime) -> datetime | None:
    """Return the first start after a time, in UTC, or None if there is none within fifty years.

    Raises ValueError, with a sentence for users, if the start or its time zone cannot be parsed.
    """
    if len(window.start.split()) != _FIELDS:
        raise ValueError(
            f"{window.start} has {len(window.start.split())} fields, not {_FIELDS}; {_WRITE_CRON}"
        )
    try:
        starts = CronSim(window.start, after.astimezone(_zone(window.time_zone)))
    except CronSimError as error:
        raise ValueError(f"{window.start} has a {str(error).lower()}; {_WRITE_CRON}") from error
    for start in starts:
        # In the hour that clocks show twice, CronSim offers the starts of the first pass again in the second.
        if start.astimezone(UTC) > after:
            return start.astimezone(UTC)
    return None


def problems(path: str, windows: Sequence[Recurring]) -> Iterator[str]:
    """Yield each problem of the schedules as one sentence that begins with the field's path."""
    for number, window in enumerate(windows):
        yield from problems_of(f"{path}[{number}]", window)


def problems_of(path: str, one: Recurring) -> Iterator[str]:
    """Yield each problem of a single schedule as one sentence that begins with the field's path."""
    try:
        _zone(one.time_zone)
    except ValueError as error:
        yield f"{path}.timeZone: {error}"
        return
    try:
        if next_start(one, _ANY_TIME) is None:
            yield f"{path}.start: {one.start} never comes; {_WRITE_CRON}"
    except ValueError as error:
        yield f"{path}.start: {error}"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # The name of a directory (`Europe`) or a path out of it (`../x`) raises errors of other types.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = engine_args.nearest(name, _zones())
        hint = f"did you mean {near}?" if near else "write one such as Europe/Berlin or UTC"
        raise ValueError(f"there is no time zone {name}; {hint}") from error


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))
