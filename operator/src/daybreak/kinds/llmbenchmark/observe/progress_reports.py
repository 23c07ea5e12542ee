"""Progress reports of a benchmark's job."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import mapping, mappings, number, text, whole
from daybreak.api.llmbenchmark.status import STEP_LIMIT
from daybreak.controller.jobs.reports import said_by, words
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
    said = said_by(content, uid)
    if said is None:
        return None
    return Progress(
        **words(said),
        now=text(said.get("now"))[:256],
        stopped=text(said.get("stopped"))[:500],
        engine_starts=max(0, whole(said.get("engineStarts"))),
        noise=number(said.get("noise")),
        steps=tuple(mappings(said.get("steps")))[:STEP_LIMIT],
        best=_mapping(said.get("best")),
        baseline=_mapping(said.get("baseline")),
        gain=_mapping(said.get("gain")),
        files=_files(said.get("files")),
    )


def _files(value: Any) -> Mapping[str, str] | None:
    return {name: text(mapping(value).get(name)) for name in FILES} if isinstance(value, Mapping) else None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None
