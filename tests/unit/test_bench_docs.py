"""The page of benchmarks, made from their results."""

import pytest

from bench.names import NAMES
from bench.report import Goal
from scripts.bench_docs import benchmarks_md, row


@pytest.mark.parametrize(
    ("value", "goal", "expected"),
    [
        (12.98, {"max": 50}, "| key | 12.98 | at most 50 |"),
        (50.01, {"max": 50}, "| key | 50.01 | at most 50: **missed** |"),
        (0.0, {"min": 1}, "| key | 0 | at least 1: **missed** |"),
        (64391.0, None, "| key | 64,391 |  |"),
    ],
)
def test_a_missed_goal_is_said(value: float, goal: Goal | None, expected: str) -> None:
    assert row("key", value, goal) == expected


def test_every_measurement_has_a_result_and_its_command() -> None:
    page = benchmarks_md()
    assert [name for name in NAMES if f"`python -m bench.{name}" not in page] == []
