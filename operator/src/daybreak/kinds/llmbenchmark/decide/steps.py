"""Conversion of a benchmark's steps from the job's report to the status."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from daybreak.api.common.unstructured import mapping, text
from daybreak.api.llmbenchmark.status import GainStatus, Percentiles, StepStatus

_SAME = (
    "settings",
    "clients",
    "rate",
    "requests_per_second",
    "tokens_per_second",
    "requests",
    "errors",
)
_OF_ENGINE = ("kv_cache", "running", "waiting", "preemptions")
_TIMES_OF_ENGINE = {"engine_ttft": "ttft_ms", "engine_tpot": "tpot_ms"}
_TIMES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "latency": "latency_ms"}
_FAILURE_LIMIT = 500
_SETTINGS_LIMIT = 1024


def step_status(report: Mapping[str, Any]) -> StepStatus:
    """Return the status of one step, or only a failure if the report of the step is malformed."""
    engine = mapping(report.get("engine"))
    found: dict[str, Any] = {name: report[name] for name in _SAME if name in report}
    found |= {name: engine[name] for name in _OF_ENGINE if name in engine}
    # An engine that has timed no request reports 0.
    found |= {name: engine[key] for name, key in _TIMES_OF_ENGINE.items() if engine.get(key)}
    found |= {name: Percentiles.model_validate(report[key]) for name, key in _TIMES.items() if key in report}
    failure = text(report.get("failure")) or text(report.get("exceeds")) or text(report.get("first_error"))
    if failure:
        found["failure"] = failure[:_FAILURE_LIMIT]
    try:
        return StepStatus.model_validate(found)
    except ValidationError:
        return StepStatus(failure="the job reported this step in a form that this operator does not know")


def gain_status(report: Mapping[str, Any] | None) -> GainStatus | None:
    """Return the gain of the best step over the baseline, or None without a gain."""
    return GainStatus.model_validate(dict(report)) if report else None


def words(settings: Mapping[str, Any]) -> str:
    """Return the settings as text for display."""
    found = ", ".join(f"{name}={value}" for name, value in settings.items()) or "baseline"
    return found[:_SETTINGS_LIMIT]
