"""The benchmark of a batch: its rows, and what its runs come to."""

import json
from pathlib import Path
from statistics import median

import pytest

from bench.ray.batch import GOALS, MEDIAN_TOKENS, MOST_TOKENS, measures, write_rows
from bench.ray.batch_ways import rate
from bench.report import met


def test_answers_have_exactly_the_lengths_that_were_drawn_and_each_round_the_same(tmp_path: Path) -> None:
    write_rows(tmp_path, 600)
    first = (tmp_path / "rows.jsonl").read_text()
    params = [json.loads(line)["params"] for line in first.splitlines()]
    lengths = [each["max_tokens"] for each in params]
    assert len(lengths) == 600
    assert all(each["min_tokens"] == each["max_tokens"] and each["ignore_eos"] for each in params)
    assert median(lengths) == pytest.approx(MEDIAN_TOKENS, rel=0.1)
    assert max(lengths) == MOST_TOKENS, "a few are long: those the others of a synchronous batch wait for"
    write_rows(tmp_path, 600)
    assert (tmp_path / "rows.jsonl").read_text() == first


def test_a_rate_is_of_what_came_after_the_first_answers() -> None:
    assert rate([(10.0, 32), (12.0, 32), (14.0, 36)]) == {
        "rows": 100,
        "seconds": 4.0,
        "rows_per_second": 17.0,
    }


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
