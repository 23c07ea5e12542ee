"""`afterIdle: Auto` compared with the fixed fifteen minutes, over traces of arrivals of many shapes."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.idle.replay import Cost, replay
from bench.idle.traces import DAY, SYNTHETIC, Trace, functions, language_models, until
from daybreak.api.gates.sleep import AutoIdle, Sleep
from daybreak.api.schema.scalars import seconds
from daybreak.gates.idle_policy import DEFAULT_SECONDS

FIXED, AUTO = Sleep(), Sleep(after_idle="Auto")
MARGIN = 1.05
LEARNING = 2
"""How much dearer it may be: by 5 %, and by two wakes in a week, since what has been is no promise."""
LENGTH = 7 * DAY
WAKES = (60.0, 300.0)
PUBLISHED = 5
"""Traces of each published shape."""


def published() -> dict[str, Trace]:
    """Return traces of the published shapes, the same every time."""
    dice = random.Random(7)  # noqa: S311 -- made up
    found = {f"functions {number}": functions(number, dice) for number in range(PUBLISHED)}
    return found | {f"language models {number}": language_models(dice) for number in range(PUBLISHED)}


TRACES = {**SYNTHETIC, **published()}


@cache
def costs(name: str, wake: float) -> tuple[Cost, Cost]:
    """Return the costs of a trace with the fixed time, and with Auto."""
    arrivals = until(TRACES[name], seed=1, length=LENGTH)
    return replay(arrivals, FIXED, wake), replay(arrivals, AUTO, wake)


@pytest.mark.parametrize("wake", WAKES)
@pytest.mark.parametrize("name", TRACES)
def test_auto_idle_cost_stays_within_margin_of_fixed_idle_cost(name: str, wake: float) -> None:
    fixed, auto = costs(name, wake)
    assert auto.total <= MARGIN * fixed.total + LEARNING * auto.weight


def test_auto_idle_time_is_cheaper_than_fixed_for_most_traces() -> None:
    found = [costs(name, wake) for name in TRACES for wake in WAKES]
    cheaper = [auto.total < 0.95 * fixed.total for fixed, auto in found]
    assert sum(cheaper) > len(found) / 2
    together = [sum(each.total for each in column) for column in zip(*found, strict=True)]
    assert together[1] < 0.9 * together[0]


def test_auto_idle_time_changes_at_most_six_times_a_day_on_average() -> None:
    """Another idle time comes into force seldom, compared with the pauses that could bring it."""
    for name in TRACES:
        for wake in WAKES:
            assert costs(name, wake)[1].changes <= 7 * 6, "six times a day"


def test_auto_idle_accelerator_use_stays_within_margin_if_waits_are_free() -> None:
    careless = Sleep(after_idle="Auto", auto=AutoIdle(wait_cost=0))
    for name in list(published())[::3]:
        arrivals = until(TRACES[name], seed=2, length=LENGTH)
        fixed, auto = replay(arrivals, FIXED, 90.0), replay(arrivals, careless, 90.0)
        assert auto.accelerators <= MARGIN * fixed.accelerators + LEARNING * auto.wake, name


gaps = st.lists(st.sampled_from([5.0, 70.0, 300.0, 890.0, 1000.0, 3000.0, 20_000.0, 10**6]), max_size=80)


@settings(max_examples=60, deadline=None)
@given(gaps=gaps, wake=st.sampled_from(WAKES))
def test_auto_idle_extra_cost_per_pause_is_bounded_for_any_arrivals(gaps: list[float], wake: float) -> None:
    """Adversary that causes the worst results of Auto, because it knows the algorithm.

    In each pause it holds for as long as its longest idle time, where the fixed one sleeps, or wakes, where
    the fixed one does not.
    """
    arrivals = [0.0]
    for gap in gaps:
        arrivals.append(arrivals[-1] + gap)
    fixed, auto = replay(arrivals, FIXED, wake), replay(arrivals, AUTO, wake)
    longest = seconds(AUTO.auto.max) - DEFAULT_SECONDS
    assert auto.total <= fixed.total + len(gaps) * max(longest, auto.weight)
