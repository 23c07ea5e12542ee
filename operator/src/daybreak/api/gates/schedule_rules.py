"""Schedules (`sleep.schedule`, `schedule` of a benchmark): when one begins next, and what is wrong with it.

A start that the clocks skip in spring comes as soon as they have been put forward; one that they show twice
in autumn comes the first time only. What recurs within the day (a star in the minutes or hours) goes by the
time that passes. This is how Debian's cron does it.
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
"""From where a start is looked for, to see whether there is any."""


class Recurring(Protocol):
    """What begins again and again."""

    @property
    def start(self) -> str:
        """When: a cron expression of five fields."""
        ...

    @property
    def time_zone(self) -> str:
        """The time zone of that."""
        ...


def next_start(window: Recurring, after: datetime) -> datetime | None:
    """When it begins first after this time, in UTC; None: not within fifty years.

    Raises ValueError, with a sentence for people, when its start or its time zone cannot be read.
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
        # In the hour that clocks show twice, the first one's starts are offered in the second again.
        if start.astimezone(UTC) > after:
            return start.astimezone(UTC)
    return None


def problems(path: str, windows: Sequence[Recurring]) -> Iterator[str]:
    """What is wrong with them, each as one sentence that begins with the field's path."""
    for number, window in enumerate(windows):
        yield from problems_of(f"{path}[{number}]", window)


def problems_of(path: str, one: Recurring) -> Iterator[str]:
    """The same of a single one."""
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
    # A folder's name (`Europe`) or one that leads elsewhere (`../x`) gives errors of other kinds.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = engine_args.nearest(name, _zones())
        hint = f"did you mean {near}?" if near else "write one such as Europe/Berlin or UTC"
        raise ValueError(f"there is no time zone {name}; {hint}") from error


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))
