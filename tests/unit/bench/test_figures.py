"""Measured figures in the pages."""

import json
from pathlib import Path

import pytest

from bench import report
from scripts.docs import figures
from scripts.prose.check import checked_files


@pytest.mark.parametrize(
    ("value", "message"),
    [(57.915, "58"), (120.1, "120"), (9.78, "9.8"), (2.424, "2.4"), (0.5664, "0.57"), (1.0, "1")],
)
def test_figure_is_rounded_to_two_significant_digits(value: float, message: str) -> None:
    assert figures.words(value) == message


def test_page_figures_are_replaced_by_values_of_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "page.md").write_text("a <!-- gpu vllm 64 -->1<!-- --> b <!-- waking ratio -->1<!-- -->, 3 s")
    table = [
        {"path": "vllm", "clients": clients, "requests_per_second": clients - 0.4} for clients in (64, 256)
    ]
    (tmp_path / "gpu.json").write_text(json.dumps({"measures": {}, "table": table}))
    (tmp_path / "waking.json").write_text(json.dumps({"measures": {"ratio": 0.327}}))
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert figures.page_md("page.md") == (
        "a <!-- gpu vllm 64 -->64<!-- --> b <!-- waking ratio -->0.33<!-- -->, 3 s"
    )


@pytest.mark.parametrize(
    ("page", "results"),
    [
        ("README.md", {"gpu-8b", "gpu-8b-256-clients", "gpu-8b-tensor-2"}),
        ("docs/comparison.md", {"gpu-8b", "gpu-8b-256-clients", "overhead", "steady", "waking"}),
        ("docs/gpu.md", {"gpu-8b"}),
        ("docs/runtime.md", {"serving_v2"}),
    ],
)
def test_page_figures_refer_to_expected_results_and_are_up_to_date(page: str, results: set[str]) -> None:
    text = (figures.ROOT / page).read_text()
    assert {found["result"] for found in figures.FIGURE.finditer(text)} == results
    assert figures.page_md(page) == text


def test_each_page_with_marked_figures_is_generated() -> None:
    pages = [name for name in checked_files() if name.endswith(".md")]
    marked = {name for name in pages if figures.FIGURE.search((figures.ROOT / name).read_text())}
    assert marked == set(figures.PAGES)


@pytest.mark.parametrize(
    "name", ["AIBrix", "Dynamo", "Kthena", "OME", "GPUStack", "direct streaming", "KV cache"]
)
def test_comparison_page_names_alternative(name: str) -> None:
    assert name in (figures.ROOT / "docs/comparison.md").read_text()
