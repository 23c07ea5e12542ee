"""Times in which a service stays awake: inside, at the edges, and at clock changes."""

from datetime import UTC, datetime, timedelta

import pytest

from daybreak.api.gates.sleep import AwakeWindow
from daybreak.gates.schedule import inside, next_change

OFFICE = AwakeWindow(start="0 8 * * MON-FRI", duration="10h", time_zone="Europe/Berlin")
NIGHT = AwakeWindow(start="30 2 * * *", duration="1h", time_zone="Europe/Berlin")
HOURLY = AwakeWindow(start="0 * * * *", duration="10m", time_zone="Europe/Berlin")
WEEKEND_NIGHT = AwakeWindow(start="0 22 * * SAT", duration="10h", time_zone="Europe/Berlin")
ALWAYS = AwakeWindow(start="0 * * * *", duration="2h")


def utc(text: str) -> datetime:
    """Return a time in UTC, given as `2026-03-02 07:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.mark.parametrize(
    ("window", "now", "within", "change"),
    [
        pytest.param(OFFICE, "2026-03-02 06:59", False, minutes(1), id="Monday, before"),
        pytest.param(OFFICE, "2026-03-02 06:59:59.5", False, minutes(0.5 / 60), id="half a second before"),
        pytest.param(OFFICE, "2026-03-02 07:00", True, minutes(600), id="its first moment"),
        pytest.param(OFFICE, "2026-03-02 07:00:00.25", True, minutes(600 - 0.25 / 60), id="just begun"),
        pytest.param(OFFICE, "2026-03-02 16:59:59", True, minutes(1 / 60), id="its last second"),
        pytest.param(
            OFFICE, "2026-03-02 17:00", False, minutes(14 * 60), id="its end belongs to what follows"
        ),
        pytest.param(OFFICE, "2026-03-06 17:00", False, minutes(62 * 60), id="Friday evening"),
        pytest.param(OFFICE, "2026-07-06 06:00", True, minutes(600), id="in summer time"),
        pytest.param(WEEKEND_NIGHT, "2026-03-08 06:59", True, minutes(1), id="over midnight"),
        pytest.param(
            ALWAYS, "2026-03-02 07:30", True, minutes(30), id="one follows before the last has ended"
        ),
        # 29 March 2026: 02:00 becomes 03:00 in Berlin, at 01:00 UTC.
        pytest.param(NIGHT, "2026-03-28 01:30", True, minutes(60), id="the day before the gap"),
        pytest.param(NIGHT, "2026-03-29 00:59", False, minutes(1), id="before the gap"),
        pytest.param(NIGHT, "2026-03-29 01:00", True, minutes(60), id="02:30 is skipped: begins at 03:00"),
        pytest.param(NIGHT, "2026-03-29 02:00", False, minutes(22 * 60 + 30), id="after the gap"),
        pytest.param(HOURLY, "2026-03-29 01:05", True, minutes(5), id="hourly goes on over the gap"),
        pytest.param(
            WEEKEND_NIGHT, "2026-03-29 06:59", True, minutes(1), id="ten hours, by the clock eleven"
        ),
        # 25 October 2026: 03:00 becomes 02:00 in Berlin, at 01:00 UTC.
        pytest.param(NIGHT, "2026-10-25 00:29", False, minutes(1), id="before 02:30 comes the first time"),
        pytest.param(NIGHT, "2026-10-25 00:30", True, minutes(60), id="02:30 the first time"),
        pytest.param(
            NIGHT, "2026-10-25 01:15", True, minutes(15), id="in the second hour, begun in the first"
        ),
        pytest.param(NIGHT, "2026-10-25 01:30", False, minutes(24 * 60), id="02:30 again: begins but once"),
        pytest.param(HOURLY, "2026-10-25 00:05", True, minutes(5), id="hourly at 02:00"),
        pytest.param(HOURLY, "2026-10-25 01:05", True, minutes(5), id="hourly at 02:00 again"),
        pytest.param(WEEKEND_NIGHT, "2026-10-25 05:59", True, minutes(1), id="ten hours, by the clock nine"),
    ],
)
def test_window_starts_by_local_clock_and_lasts_its_duration(
    window: AwakeWindow, now: str, within: bool, change: timedelta
) -> None:
    assert inside([window], utc(now)) is within
    assert next_change([window], utc(now)) == change


def test_any_of_several_windows_keeps_model_awake() -> None:
    both = [OFFICE, WEEKEND_NIGHT]
    assert inside(both, utc("2026-03-02 12:00"))
    assert inside(both, utc("2026-03-08 02:00"))
    assert not inside(both, utc("2026-03-08 12:00"))
    assert next_change(both, utc("2026-03-07 12:00")) == minutes(9 * 60), "the one that comes first"


def test_empty_schedule_has_no_window_and_no_change() -> None:
    assert not inside([], utc("2026-03-02 12:00"))
    assert next_change([], utc("2026-03-02 12:00")) is None


@pytest.mark.parametrize(
    "window",
    [
        AwakeWindow(start="0 8 * * MONTAG", duration="1h"),
        AwakeWindow(start="0 8 * * *", duration="1h", time_zone="Europe/Bielefeld"),
        AwakeWindow(start="0 0 31 2 *", duration="1h"),
    ],
)
def test_invalid_window_is_ignored(window: AwakeWindow) -> None:
    now = utc("2026-03-02 12:00")
    assert not inside([window], now)
    assert next_change([window], now) is None
    assert inside([window, OFFICE], now), "the others count all the same"
