"""Properties of every schedule, around the days on which clocks are changed and on any other."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.api.gates.schedule_rules import next_start, problems
from daybreak.api.gates.sleep import AwakeWindow
from daybreak.api.schema.scalars import parse_duration
from daybreak.gates.schedule import inside, next_change
from tests.budget import examples

SECOND = timedelta(seconds=1)
minutes = st.sampled_from(["0", "30", "*/20", "*"])
hours = st.sampled_from(["2", "8", "*/6", "*", "1,2,3", "23"])
days = st.sampled_from(["*", "MON-FRI", "SUN", "SAT#4"])
windows = st.builds(
    AwakeWindow,
    start=st.builds("{} {} * * {}".format, minutes, hours, days),
    duration=st.sampled_from(["10m", "59m", "1h", "10h", "25h"]),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
CHANGES = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
]
times = st.builds(
    lambda change, away: change + timedelta(seconds=away),
    st.sampled_from(CHANGES),
    st.integers(-100_000, 100_000),
)


@given(st.lists(windows, max_size=3), times, st.floats(0, 1))
@settings(max_examples=examples(300))
def test_schedule_state_is_constant_before_next_change(
    schedule: list[AwakeWindow], now: datetime, part: float
) -> None:
    pause = next_change(schedule, now)
    if pause is None:
        assert not inside(schedule, now)
        return
    assert pause > timedelta(0)
    assert inside(schedule, now + min(pause * part, pause - SECOND / 2)) == inside(schedule, now)


@given(windows, times)
@settings(max_examples=examples(300))
def test_next_change_of_window_is_its_start_or_its_end(window: AwakeWindow, now: datetime) -> None:
    pause = next_change([window], now)
    assert pause is not None
    if not inside([window], now):
        assert inside([window], now + pause)
        return
    start = now + pause - parse_duration(window.duration)
    assert next_start(window, start - SECOND) == start
    # The next window may have started before the end of this one.
    following = next_start(window, start)
    assert following is not None
    assert inside([window], now + pause) == (following <= now + pause)


@given(st.text("0123456789*/-,#LWMON ", min_size=9, max_size=40), st.text(min_size=1, max_size=64))
@settings(max_examples=examples(300))
def test_schedule_with_any_text_is_validated_without_exception(start: str, zone: str) -> None:
    for name in ("UTC", zone):
        window = AwakeWindow(start=start, duration="1h", time_zone=name)
        for problem in problems("schedule", [window]):
            assert problem.startswith(("schedule[0].start: ", "schedule[0].timeZone: "))
        inside([window], CHANGES[0])
