"""Progress reports of a benchmark's job."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import mapping, mappings, number, text, whole
from daybreak.api.llmbenchmark.status import STEP_LIMIT
from daybreak.controller.jobs.reports import own_report, words
from daybreak.kinds.llmbenchmark.objects.report_map import FILES
from daybreak.kinds.llmbenchmark.observe.observed import Progress

PATH = "/-/benchmark"
"""Path of the job's progress report (`daybreak_runtime.benchmark`)."""
REPORT_LIMIT = 1024 * 1024
"""Maximum length of a progress report, in bytes. STEP_LIMIT steps with the longest report need two thirds of
it."""


def read(content: bytes, uid: str) -> Progress | None:
    """Return the progress that a job reports, or None if it belongs to another benchmark.

    Malformed values are ignored.
    """
    report = own_report(content, uid)
    if report is None:
        return None
    return Progress(
        **words(report),
        now=text(report.get("now"))[:256],
        stopped=text(report.get("stopped"))[:500],
        engine_starts=max(0, whole(report.get("engineStarts"))),
        noise=number(report.get("noise")),
        steps=tuple(mappings(report.get("steps")))[:STEP_LIMIT],
        best=_mapping(report.get("best")),
        baseline=_mapping(report.get("baseline")),
        gain=_mapping(report.get("gain")),
        files=_files(report.get("files")),
    )


def _files(value: Any) -> Mapping[str, str] | None:
    return {name: text(mapping(value).get(name)) for name in FILES} if isinstance(value, Mapping) else None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None
