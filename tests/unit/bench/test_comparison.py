"""Measured numbers in docs/comparison.md."""

import json
from pathlib import Path

import pytest

from bench import report
from scripts.docs import comparison


@pytest.mark.parametrize(
    ("value", "message"),
    [(57.915, "58"), (120.1, "120"), (9.78, "9.8"), (2.424, "2.4"), (0.5664, "0.57"), (1.0, "1")],
)
def test_figures_are_said_with_two_digits(value: float, message: str) -> None:
    assert comparison.words(value) == message


def test_a_figure_is_that_of_its_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "comparison.md").write_text(
        "a <!-- gpu vllm 64 -->1<!-- --> b <!-- waking ratio -->1<!-- -->, 3 s"
    )
    table = [
        {"path": "vllm", "clients": clients, "requests_per_second": clients - 0.4} for clients in (64, 256)
    ]
    (tmp_path / "gpu.json").write_text(json.dumps({"measures": {}, "table": table}))
    (tmp_path / "waking.json").write_text(json.dumps({"measures": {"ratio": 0.327}}))
    monkeypatch.setattr(comparison, "PAGE", tmp_path / "comparison.md")
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert comparison.comparison_md() == (
        "a <!-- gpu vllm 64 -->64<!-- --> b <!-- waking ratio -->0.33<!-- -->, 3 s"
    )


def test_the_page_has_marks_for_each_of_the_results_that_it_tells_of() -> None:
    named = {found["result"] for found in comparison.FIGURE.finditer(comparison.PAGE.read_text())}
    assert named == {"gpu-8b", "gpu-8b-256-clients", "overhead", "steady", "waking"}


def test_readme_has_marks_for_each_figure_on_gpus() -> None:
    named = {found["result"] for found in comparison.FIGURE.finditer(comparison.README.read_text())}
    assert named == {"gpu-8b", "gpu-8b-256-clients", "gpu-8b-tensor-2", "gpu-batch-8b"}


def test_pages_have_the_figures_of_the_results() -> None:
    assert comparison.comparison_md() == comparison.PAGE.read_text()
    assert comparison.readme_md() == comparison.README.read_text()


@pytest.mark.parametrize(
    "name", ["AIBrix", "Dynamo", "Kthena", "OME", "GPUStack", "direct streaming", "KV cache"]
)
def test_page_names_the_alternatives(name: str) -> None:
    assert name in comparison.PAGE.read_text()
