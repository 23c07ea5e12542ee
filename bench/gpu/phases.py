"""Durations of the phases of a start, read from the logs of Ray Serve and vLLM."""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

MARKS: dict[str, str] = {
    "build_begins": r"Importing and building app",
    "build_ends": r"Imported and built app .* successfully",
    "replica_asked_for": r"Adding \d+ replicas? to Deployment\(name='LLMServer",
    "replica_begins": r"LLMServer.* -- Started initializing replica",
    "weights_looked_for": r"LLMServer.* -- Running tasks to download model files",
    "engine_config": r"Resolved architecture",
    "engine_process": r"Initializing a V1 LLM engine",
    "weights_begin": r"Starting to load model",
    "weights_end": r"Model loading took|Loading weights took",
    "compile_ends": r"torch\.compile (?:takes|took)|Compiling a graph .* takes",
    "memory_profiled": r"Available KV cache memory|[CG]PU KV cache size",
    "graphs_captured": r"Graph capturing finished",
    "engine_ready": r"init engine \(profile, create kv cache, warmup model\) took",
    "engine_answers": r"LLMServer.* -- Started vLLM engine|Application startup complete",
    "replica_ready": r"LLMServer.* -- Finished initializing replica",
}
"""Log line of each phase in Ray 2.60 and vLLM 0.29; the first match counts."""

_SERVE_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+)")
_VLLM_TIME = re.compile(r"\b(\d\d-\d\d \d\d:\d\d:\d\d)\b")
_TOOK = re.compile(r"(?:took|takes|finished in)\s+(?:[\d.]+ GiB(?: memory)? and )?([\d.]+) ?s(?:ec|$|\b)")


def marks(files: Iterable[Path], since: float) -> dict[str, float]:
    """Return the seconds after `since` (Unix time) at which each phase was first logged, in order."""
    found: dict[str, float] = {}
    for file in files:
        for line in _lines(file):
            at = _time(line, since)
            if at is None or at < since - 1:
                continue
            for name, pattern in MARKS.items():
                if re.search(pattern, line):
                    seconds = round(max(0.0, at - since), 1)
                    found[name] = min(seconds, found.get(name, seconds))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def read_phases(files: Iterable[Path], since: float) -> dict[str, float]:
    """Return the seconds of each phase that vLLM itself logs."""
    found: dict[str, float] = {}
    for file in files:
        for line in _lines(file):
            at = _time(line, since)
            if at is None or at < since - 1 or not (took := _TOOK.search(line)):
                continue
            for name in ("weights_end", "compile_ends", "graphs_captured", "engine_ready"):
                if re.search(MARKS[name], line):
                    found[name] = float(took[1])
    return found


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _time(line: str, since: float) -> float | None:
    """Return the Unix time at the beginning of a log line, in local time; vLLM's lines have no year."""
    if found := _SERVE_TIME.search(line[:120]):
        return datetime.strptime(found[1].replace(",", "."), "%Y-%m-%d %H:%M:%S.%f").timestamp()  # noqa: DTZ007
    if found := _VLLM_TIME.search(line[:120]):
        year = datetime.fromtimestamp(since).year  # noqa: DTZ006
        return datetime.strptime(f"{year}-{found[1]}", "%Y-%m-%d %H:%M:%S").timestamp()  # noqa: DTZ007
    return None
