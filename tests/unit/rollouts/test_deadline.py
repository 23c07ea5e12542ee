"""Maximum duration of a change."""

from datetime import timedelta

import pytest

from daybreak.api.gates.gate_status import WakeStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.rollouts.deadline import BOUNDS, TIMES, UNKNOWN, deadline


def wakes(*seconds: int) -> list[WakeStatus]:
    """Return the measured wakes."""
    return [
        WakeStatus(depth=SleepDepth.WORKERS, start_time="2026-11-23T09:00:00Z", p95_seconds=each)
        for each in seconds
    ]


@pytest.mark.parametrize(
    ("measured", "limit"),
    [
        ((), UNKNOWN),
        ((20,), BOUNDS[0]),
        ((600, 60), timedelta(seconds=600 * TIMES)),
        ((9000,), BOUNDS[1]),
    ],
)
def test_auto_deadline_follows_slowest_measured_start_within_bounds(
    measured: tuple[int, ...], limit: timedelta
) -> None:
    assert deadline("Auto", [None, *wakes(*measured)]) == limit


def test_explicit_deadline_overrides_measured_starts() -> None:
    assert deadline("90s", wakes(600)) == timedelta(seconds=90)
