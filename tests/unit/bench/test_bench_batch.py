"""The benchmark of a batch: its rows, and the summary of its runs."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

from bench.gpu import batch as gpu_batch
from bench.ray import batch, batch_ways
from bench.ray.batch import GOALS, MEDIAN_TOKENS, MOST_TOKENS, ROWS, measures, write_rows
from bench.ray.batch_ways import Settings, naive_blocks, rate
from bench.report import met
from daybreak.api.llmbatch.spec import Stages


def test_rows_fix_answer_lengths_and_are_equal_in_each_round(tmp_path: Path) -> None:
    write_rows(tmp_path, 640)
    first = (tmp_path / "rows.jsonl").read_text()
    params = [json.loads(line)["params"] for line in first.splitlines()]
    lengths = [each["max_tokens"] for each in params]
    assert len(lengths) == 640
    assert all(each["min_tokens"] == each["max_tokens"] and each["ignore_eos"] for each in params)
    assert median(lengths) == pytest.approx(MEDIAN_TOKENS, rel=0.1)
    assert max(lengths) == MOST_TOKENS, "a few are long: those the others of a synchronous batch wait for"
    write_rows(tmp_path, 640)
    assert (tmp_path / "rows.jsonl").read_text() == first


class TestRate:
    def test_rate_counts_all_rows_from_first_taken_row_to_last_answer(self) -> None:
        assert rate(100, first_taken=10.0, last_answer=14.0) == {
            "rows": 100,
            "seconds": 4.0,
            "rows_per_second": 25.0,
        }

    @pytest.mark.parametrize(("rows", "last"), [(0, 12.0), (32, 10.0)])
    def test_rate_without_rows_or_time_is_rejected(self, rows: int, last: float) -> None:
        with pytest.raises(ValueError, match="no rate"):
            rate(rows, first_taken=10.0, last_answer=last)


class TestFirstRow:
    @pytest.fixture
    def clock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        monkeypatch.setenv(batch_ways.FIRST_ROW, "")
        played = [7.25]
        clock = SimpleNamespace(monotonic=lambda: played[0], monotonic_ns=int)
        monkeypatch.setattr(batch_ways, "time", clock)
        batch_ways.expect_first_row(tmp_path)
        return played

    def test_only_first_row_is_recorded(self, clock: list[float]) -> None:
        batch_ways.note_row()
        clock[0] = 9.5
        batch_ways.note_row()
        assert batch_ways.first_row() == 7.25

    def test_row_recorded_by_subprocess_counts_as_first_row(self, clock: list[float]) -> None:
        subprocess.run(
            [sys.executable, "-c", "from bench.ray import batch_ways; batch_ways.note_row()"], check=True
        )
        noted = batch_ways.first_row()
        batch_ways.note_row()
        assert batch_ways.first_row() == noted != clock[0]


def test_batch_size_equals_default_of_llmbatch() -> None:
    assert Settings({}).batch_rows == Stages().batch_size


def test_naive_blocks_have_32_rows_and_other_row_counts_are_rejected(tmp_path: Path) -> None:
    assert naive_blocks(ROWS) == ROWS // 32
    for rows in (0, 31, 600):
        with pytest.raises(ValueError, match="multiple of 32"):
            naive_blocks(rows)
    with pytest.raises(ValueError, match="multiple of 32"):
        write_rows(tmp_path, 1500)
    default = inspect.signature(batch.main).parameters["rows"].default
    options = gpu_batch._parser().parse_args([])
    assert [rows % 32 for rows in (default, options.rows, options.naive_rows)] == [0, 0, 0]


def test_medians_are_compared_and_a_way_that_did_not_run_is_left_out() -> None:
    runs = [
        {"way": way, "rows_per_second": rows * part}
        for way, rows in (("naive", 10.0), ("plain", 22.0), ("batch", 21.0))
        for part in (1.0, 0.5, 1.0)
    ]
    found = measures(runs)
    assert found["batch_to_naive"] == pytest.approx(2.1)
    assert found["batch_to_plain"] == pytest.approx(21 / 22)
    assert all(met(found[name], goal) for name, goal in GOALS.items())
    assert "batch_to_naive" not in measures([run for run in runs if run["way"] != "naive"])
