"""The ConfigMap with a report, and the status that names it."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from daybreak.api.llmbenchmark.status import ReportStatus
from daybreak.kinds.llmbenchmark.decide.decision import decide
from daybreak.kinds.llmbenchmark.job_kind import BenchmarkKind
from daybreak.kinds.llmbenchmark.objects.report_map import FILES, LIMIT, fitting
from daybreak.kinds.llmbenchmark.observe.observed import Observed
from daybreak.kinds.llmbenchmark.observe.progress_reports import REPORT_LIMIT, read
from daybreak.kinds.llmbenchmark.status.report import report
from daybreak.platform import Platform
from daybreak_runtime.benchmark.report import files as runtime
from tests.unit.llmbenchmark.test_decision import LAST, observe

PAGE = {"report.html": "<p>"}


def kept(at: Observed) -> dict[str, Any] | None:
    return BenchmarkKind(Platform("ray", "ray-cpu")).keeps(at, decide(at))


def read_message(at: Observed) -> ReportStatus | None:
    return report(at, decide(at)).report


def test_report_files_and_limit_are_the_same_in_runtime_and_operator() -> None:
    assert sorted(FILES) == sorted(runtime.KEPT)
    assert LIMIT == runtime.KEPT_BYTES


def test_report_is_kept_only_from_final_report_with_files() -> None:
    last = replace(LAST, files=PAGE)
    found = kept(observe(progress=last))
    assert found is not None
    assert found["data"] == PAGE
    assert kept(observe(progress=replace(last, final=False))) is None
    assert kept(observe(progress=LAST)) is None
    assert kept(observe({"completionTime": "2026-01-01T00:00:00Z"}, progress=last)) is None


def test_failed_benchmark_keeps_its_report() -> None:
    """A benchmark that cannot write its report to the given place keeps it in the ConfigMap."""
    failed = replace(LAST, files=PAGE, state="Failed", reason="AccessDenied", message="403")
    assert kept(observe(progress=failed)) is not None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"foreign": ("ConfigMap/tune-report",)}, "ConfigMap/tune-report is not managed by Daybreak"),
        ({"refusal": "ConfigMap tune-report: forbidden"}, "benchmarks.reports"),
    ],
)
def test_status_states_why_report_is_not_kept(more: dict[str, Any], words: str) -> None:
    at = observe(progress=replace(LAST, files=PAGE), **more)
    found = read_message(at)
    assert found is not None
    assert found.config_map is None
    assert words in (found.message or "")
    verdict = decide(at).verdict
    assert verdict is not None
    assert verdict.phase == "Succeeded"


def test_file_over_size_limit_is_reported_as_not_kept() -> None:
    found = read_message(
        observe(progress=replace(LAST, files=PAGE | {"results.json": "x" * LIMIT, "curve.png": "aGk="}))
    )
    assert found is not None
    assert found.files == ["report.html", "curve.png"]
    assert found.message == "not kept over the size limit (384 KiB): results.json"
    assert fitting({"report.html": "x" * (LIMIT + 1)}) == {}


def test_report_file_that_is_not_text_is_read_as_empty() -> None:
    content = {"uid": "u-1", "files": {"report.html": 7, "curve.png": "aGk=", "more": "x"}}
    found = read(orjson.dumps(content), "u-1")
    assert found is not None
    assert found.files == {"report.html": "", "results.json": "", "curve.png": "aGk="}
    other = read(orjson.dumps({"uid": "u-1", "files": []}), "u-1")
    assert other is not None
    assert other.files is None


def test_longest_report_fits_into_response_limit() -> None:
    # Each line of a page escapes some quotes in JSON; here every second character is a quote.
    assert len(orjson.dumps('"x' * (LIMIT // 2))) < REPORT_LIMIT - 200 * 1024
