"""ConfigMap with the report of a benchmark, created once at its end from the job's final report."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.job import COMPONENT

_TEXTS, _PICTURES = ("report.html", "results.json"), ("curve.png",)
FILES = (*_TEXTS, *_PICTURES)
"""Names of the report files to keep."""
LIMIT = 384 * 1024
"""Maximum total size of the kept files, in bytes. Files that exceed it are omitted."""


def fitting(files: Mapping[str, str]) -> dict[str, str]:
    """Return the report files that fit within `LIMIT`."""
    found: dict[str, str] = {}
    room = LIMIT
    for name in FILES:
        size = len(files.get(name, "").encode())
        if 0 < size <= room:
            found[name] = files[name]
            room -= size
    return found


def report_map(benchmark: LLMBenchmark, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the ConfigMap with the given files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(KIND, benchmark, names.benchmark_report(benchmark.name), COMPONENT),
        "data": {name: files[name] for name in _TEXTS if name in files},
        "binaryData": {name: files[name] for name in _PICTURES if name in files},
    }
