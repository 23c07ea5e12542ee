"""The ConfigMap with the report of a benchmark: made once at its end, of what its job has told."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.job import COMPONENT

_TEXTS, _PICTURES = ("report.html", "results.json"), ("curve.png",)
FILES = (*_TEXTS, *_PICTURES)
"""The files that are kept."""
LIMIT = 384 * 1024
"""Most characters of them together; what a job tells beyond that is left out."""


def fitting(files: Mapping[str, str]) -> dict[str, str]:
    """Those of the files that are kept."""
    found: dict[str, str] = {}
    room = LIMIT
    for name in FILES:
        size = len(files.get(name, "").encode())
        if 0 < size <= room:
            found[name] = files[name]
            room -= size
    return found


def report_map(benchmark: LLMBenchmark, files: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap with these files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(KIND, benchmark, names.benchmark_report(benchmark.name), COMPONENT),
        "data": {name: files[name] for name in _TEXTS if name in files},
        "binaryData": {name: files[name] for name in _PICTURES if name in files},
    }
