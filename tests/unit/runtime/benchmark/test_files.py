"""Parts of a report that the operator receives."""

import base64

import pytest

from daybreak_runtime.benchmark.progress import Progress
from daybreak_runtime.benchmark.report.files import KEPT, KEPT_BYTES, files, kept
from tests.unit.runtime.benchmark.test_run import SWEEP, Machine, order, run


def test_complete_report_is_kept_within_the_size_limit() -> None:
    desired = order(sweep=SWEEP)
    written = files(desired, run(desired, Machine()))
    found = kept(written)
    assert [*found] == [*KEPT]
    assert found["report.html"] == written["report.html"].decode()
    assert base64.b64decode(found["curve.png"]) == written["curve.png"]
    assert sum(map(len, found.values())) < KEPT_BYTES


@pytest.mark.parametrize(
    ("most", "names"),
    [
        (30, ["report.html", "curve.png", "results.json"]),
        (29, ["report.html", "curve.png"]),
        (17, ["report.html"]),
        (10, ["curve.png"]),
        (7, []),
    ],
)
def test_report_files_above_the_size_limit_are_omitted(most: int, names: list[str]) -> None:
    # Twelve characters, eight as Base64, ten of two bytes each at most.
    written = {"report.html": b"<p>a page<p>", "curve.png": b"sixby", "results.json": "\u00e4".encode() * 5}
    assert [*kept(written, most)] == names


def test_final_report_contains_the_kept_files() -> None:
    progress = Progress("u-1")
    progress.keep({"report.html": "<p>"})
    progress.end()
    assert progress.report()["files"] == {"report.html": "<p>"}
    assert progress.report()["final"] is True
