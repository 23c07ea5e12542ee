"""Progress of a benchmark."""

from collections.abc import Mapping
from typing import Any

from daybreak_runtime.benchmark.outcome import Step, Trial
from daybreak_runtime.benchmark.run import Course, Gain
from daybreak_runtime.jobs.port import ProgressPort

PATH = "/-/benchmark"


class Progress(ProgressPort):
    """Progress of a benchmark, served on a port.

    Args:
        uid: UID of the LLMBenchmark.
    """

    def __init__(self, uid: str) -> None:
        super().__init__(uid, PATH, {"state": "Running", "steps": []})

    def course(self, course: Course, gain: Gain | None, relative_noise: float) -> None:
        """Update the course."""
        self.write(**plain(course, gain, relative_noise))

    def keep(self, files: Mapping[str, str]) -> None:
        """Set the files of the report that the operator must keep, by name."""
        self.write(files=dict(files))


def plain(course: Course, gain: Gain | None, relative_noise: float) -> dict[str, Any]:
    """Return a course in JSON's types."""
    trials = course.trials
    found: dict[str, Any] = {
        "now": course.now,
        "stopped": course.stopped,
        "engineStarts": sum(not trial.failure or trial.start_seconds > 0 for trial in trials),
        "steps": [each for trial in trials for each in _steps(trial)],
        "noise": round(relative_noise, 4),
    }
    best, baseline = course.best, course.baseline
    if best is not None:
        found["best"] = _step(best)
    if baseline is not None:
        found["baseline"] = _step(baseline)
    if gain is not None:
        found["gain"] = {
            "ratio": round(gain.ratio, 4),
            "noise": round(gain.noise, 4),
            "significant": gain.significant,
        }
    return found


def _steps(trial: Trial) -> list[dict[str, Any]]:
    if not trial.steps:
        return [{"settings": trial.settings, "failure": trial.failure[:500]}]
    return [_step(step) for step in trial.steps]


def _step(step: Step) -> dict[str, Any]:
    return step.plain
