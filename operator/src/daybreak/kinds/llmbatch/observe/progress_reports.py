"""Progress reports of a batch's job."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import mapping, number, text, whole
from daybreak.controller.jobs.reports import own_report, words
from daybreak.kinds.llmbatch.observe.observed import Progress

PATH = "/-/batch"
"""Path of the job's progress report (`daybreak_runtime.batch`)."""
_ERROR_LIMIT = 300


def read(content: bytes, uid: str) -> Progress | None:
    """Return the progress that a job reports, or None if it belongs to another batch.

    Malformed values are ignored.
    """
    report = own_report(content, uid)
    if report is None:
        return None
    rows, tokens = mapping(report.get("rows")), mapping(report.get("tokens"))
    errors = report.get("errors")
    return Progress(
        **words(report),
        total=_count(rows, "total"),
        done=_count(rows, "done"),
        failed=_count(rows, "failed"),
        prompt_tokens=_count(tokens, "prompt"),
        completion_tokens=_count(tokens, "completion"),
        rows_per_second=_rate(report.get("rowsPerSecond")),
        tokens_per_second=_rate(report.get("tokensPerSecond")),
        errors=tuple(text(each)[:_ERROR_LIMIT] for each in errors[:3]) if isinstance(errors, list) else (),
    )


def _count(numbers: Mapping[str, Any], name: str) -> int:
    return max(0, whole(numbers.get(name)))


def _rate(value: Any) -> float | None:
    known = number(value)
    return None if known is None else max(0.0, known)
