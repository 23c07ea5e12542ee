"""Summary of the runs of bench.serving.v2."""

import pytest

from bench.report import met
from bench.serving.v2 import GOALS, WAYS, measures


def runs(**requests: float) -> list[dict[str, float | str]]:
    """Return three runs of each path, one on a busy machine. By default all paths are equally fast."""
    each = {way: requests.get(way, 100.0) for way in WAYS}
    return [
        {"way": way, "requests_per_second": figure * part, "p99_ms": 1000 / figure / part}
        for way, figure in each.items()
        for part in (1.0, 0.1, 1.0)
    ]


def test_medians_are_compared_and_every_goal_has_its_measure() -> None:
    found = measures(runs(batched=500.0, own_port=300.0))
    assert set(GOALS) <= set(found)
    assert found["batched_to_alone"] == pytest.approx(5)
    assert found["own_port_to_kserve"] == pytest.approx(3)
    assert found["own_port_p99_to_kserve"] == pytest.approx(1 / 3)
    assert all(met(found[name], goal) for name, goal in GOALS.items())


def test_a_server_that_is_slower_misses_its_goals() -> None:
    found = measures(runs(kserve=200.0, batched=300.0))
    missed = {name for name, goal in GOALS.items() if not met(found[name], goal)}
    assert missed == set(GOALS), "each of them can be missed"
