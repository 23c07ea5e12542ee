"""The benchmarks page, generated from the results."""

import json
from pathlib import Path

import pytest

from bench import report
from bench.names import NAMES
from bench.report import Goal
from cluster import paths
from scripts.docs.benchmarks import benchmarks_md, row


@pytest.mark.parametrize(
    ("value", "goal", "expected"),
    [
        (12.98, {"max": 50}, "| key | 12.98 | at most 50 |"),
        (50.01, {"max": 50}, "| key | 50.01 | at most 50: **missed** |"),
        (0.0, {"min": 1}, "| key | 0 | at least 1: **missed** |"),
        (64391.0, None, "| key | 64,391 |  |"),
    ],
)
def test_row_marks_missed_goal(value: float, goal: Goal | None, expected: str) -> None:
    assert row("key", value, goal) == expected


def test_make_bench_runs_without_and_with_cluster() -> None:
    recipe = (paths.REPOSITORY / "Makefile").read_text().split("\nbench:")[1].split("\n\n")[0]
    run = [line.split("-m bench ")[1] for line in recipe.splitlines() if "-m bench " in line]
    assert run == ["--without-cluster", "--with-cluster"]


def test_every_measurement_is_on_page_with_its_command() -> None:
    page = benchmarks_md()
    assert [name for name, module in NAMES.items() if f"`python -m {module} " not in page] == []


def test_gpu_search_result_has_section_with_steps_and_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {"p50": 41.5, "p95": 90.0, "p99": 99.0}
    step = {
        "settings": {"max_num_seqs": 64},
        "clients": 64,
        "requests_per_second": 60.25,
        "tokens_per_second": 6900.4,
        "errors": 0,
        "ttft_ms": figures,
        "tpot_ms": {"p50": 8.5, "p95": 9.0, "p99": 9.5},
        "latency_ms": figures,
    }
    result = {
        "title": "A search",
        "command": "python -m bench.gpu.tune",
        "machine": "1 x GPU, 16 cores",
        "versions": {"vllm": "0.29.0"},
        "stopped": "max_num_seqs: its last value was tried",
        "engineStarts": 3,
        "noise": 0.012,
        "steps": [
            {**step, "settings": {}, "requests_per_second": 50.0},
            step,
            {"settings": {"max_num_seqs": 9999}, "failure": "out of memory\nmore"},
        ],
        "best": step,
        "gain": {"ratio": 1.205, "noise": 0.02, "significant": True},
    }
    (tmp_path / "gpu-tuning-8b.json").write_text(json.dumps(result))
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    page = benchmarks_md()
    assert "`python -m bench.gpu.tune` on 1 x GPU, 16 cores." in page
    assert "| as generated | 64 | 50 | 6,900 | 41.5 | 90 | 8.5 | 0 |" in page
    assert "| max_num_seqs 64 | 64 | 60.25 | 6,900 | 41.5 | 90 | 8.5 | 0 |" in page
    assert "| max_num_seqs 9999 | did not start: out of memory |" in page
    assert "Best: max_num_seqs 64, 60.25 requests/s, 1.21 times the baseline, beyond noise (± 0.02)." in page


def test_gpu_batch_result_has_section_with_runs_and_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {
        "title": "A batch",
        "command": "python -m bench.gpu.batch --rows 3000",
        "complete": False,
        "machine": "1 x GPU, 16 cores",
        "versions": {"vllm": "0.29.0"},
        "measures": {"batch_to_naive": 1.5},
        "goals": {"batch_to_naive": {"min": 2.0}},
        "runs": [{"way": "batch", "rows": 3000, "seconds": 12.25, "rows_per_second": 244.9}],
    }
    (tmp_path / "gpu-batch-8b.json").write_text(json.dumps(result))
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    page = benchmarks_md()
    assert "| batch | 3,000 | 12.25 | 244.9 |" in page
    assert "| batch_to_naive | 1.5 | at least 2: **missed** |" in page
    assert "Not complete" in page
