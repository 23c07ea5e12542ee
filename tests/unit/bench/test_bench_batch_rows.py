"""The benchmark of many rows: the progress of a batch, the moment to kill it, and the summary of its runs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.processes import process, tail, until
from bench.ray.batch_rows import (
    FEW_ROWS,
    GOALS,
    ROW_BYTES,
    ROWS,
    Attempt,
    Follower,
    _write_rows,
    goals,
    measures,
)
from bench.report import met


def read_report(state: str, done: int = 0) -> dict[str, Any]:
    return {"state": state, "rows": {"total": 100, "done": done} if state != "Reading" else {}}


class TestFollower:
    def test_start_seconds_include_ray_and_engine_but_not_reading(self) -> None:
        follower = Follower()
        for now, message in (
            (1, {}),
            (10, read_report("Reading")),
            (14, read_report("Starting")),
            (21, read_report("Running")),
        ):
            follower.receive(message, now)
        follower.receive(read_report("Running", 40), 30)
        assert follower.start_seconds == 10 + 7

    def test_unobserved_state_adds_no_start_seconds(self) -> None:
        follower = Follower()
        follower.receive(read_report("Reading"), 10)
        follower.receive(read_report("Succeeded", 3), 12)
        assert follower.start_seconds == 10

    def test_kill_is_due_between_two_parts_after_kill_count(self) -> None:
        follower = Follower(kill_at=50)
        for now, done in ((10, 0), (14, 20), (18, 40)):
            follower.receive(read_report("Running", done), now)
            assert not follower.due(now + 3)
        follower.receive(read_report("Running", 60), 22)
        assert (follower.due(23.9), follower.due(24.1)) == (False, True)
        follower.receive(read_report("Running", 60), 24.5)
        assert follower.due(24.5), "the same count again is no part"

    def test_kill_is_never_due_without_kill_count(self) -> None:
        follower = Follower()
        follower.receive(read_report("Running", 99), 22)
        assert not follower.due(1000)


def attempts(**resumed: float) -> dict[str, Attempt]:
    """Return attempts with 200 s of work, of which 104 s were done at the kill."""
    figures = {"seconds": 130.0, "start_seconds": 30.0, "rss_mib": 705.0, "own_mib": 605.0} | resumed
    return {
        "few": Attempt(10_000, 50, 30, 690.0, 590.0, 10_000),
        "whole": Attempt(100_000, 230, 30, 900.0, 620.0, 100_000),
        "killed": Attempt(100_000, 134, 30, 699.0, 599.0, 51_000),
        "resumed": Attempt(100_000, done=100_000, **figures),
    }


def test_resume_overhead_is_measured_without_and_with_start() -> None:
    found = measures(attempts(), {"whole": 100_000, "killed": 100_600})
    assert found["resume_overhead"] == pytest.approx(204 / 200 - 1)
    assert found["resume_overhead_with_start"] == pytest.approx(264 / 230 - 1)
    assert found["rows_per_second"] == pytest.approx(500)
    assert (found["rows_answered_twice"], found["rows_answered_twice_undisturbed"]) == (600, 0)
    assert all(met(found[name], goal) for name, goal in GOALS.items())


class TestGrowth:
    def test_driver_growth_excludes_object_store(self) -> None:
        assert measures(attempts(), {"whole": 0, "killed": 0})["driver_growth_mib"] == 30.0

    def test_driver_that_keeps_half_of_rows_misses_growth_goal(self, tmp_path: Path) -> None:
        _write_rows(tmp_path / "whole", 1000)
        lines = (tmp_path / "whole" / "rows.jsonl").read_text().splitlines()
        each = {len(json.loads(line)["text"]) for line in lines}
        kept = 0.5 * (ROWS - FEW_ROWS) * ROW_BYTES / 2**20
        assert each == {ROW_BYTES}
        assert not met(kept, goals(ROWS - FEW_ROWS)["driver_growth_mib"])

    def test_driver_growth_goal_is_omitted_for_few_rows(self) -> None:
        assert "driver_growth_mib" not in goals(10_000)
        assert set(goals(ROWS - FEW_ROWS)) == set(GOALS)


def test_own_memory_excludes_shared_memory(tmp_path: Path) -> None:
    program = (
        "import mmap, time; shared = mmap.mmap(-1, 64 << 20); shared.write(b'x' * len(shared)); "
        "print('ready', flush=True); time.sleep(60)"
    )
    with process("shared", [sys.executable, "-c", program], {}, tmp_path) as one:
        until("ready", lambda: "ready" in tail(one.log) or None, 30, one, pause=0.05)
        assert one.peak_mib - one.own_mib > 60


def test_resume_goal_is_missed_for_repeated_work_but_not_for_long_start() -> None:
    def overhead(**resumed: float) -> float:
        return measures(attempts(**resumed), {"whole": 0, "killed": 0})["resume_overhead"]

    assert met(overhead(seconds=200.0, start_seconds=100.0), GOALS["resume_overhead"])
    assert not met(overhead(seconds=150.0), GOALS["resume_overhead"])
