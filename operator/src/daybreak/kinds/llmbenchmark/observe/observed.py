"""All inputs of one reconcile of a benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.unstructured import condition, mapping, text
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService
from daybreak.jobs.observed import JobWords, ObservedJob, Referred


@dataclass(frozen=True)
class Progress(JobWords):
    """Progress that a benchmark's job reports."""

    now: str = ""
    stopped: str = ""
    engine_starts: int = 0
    noise: float | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    best: Mapping[str, Any] | None = None
    baseline: Mapping[str, Any] | None = None
    gain: Mapping[str, Any] | None = None
    files: Mapping[str, str] | None = None
    """Files of the report, which the job sends at its end. None if it has sent none."""


@dataclass(frozen=True)
class Observed(ObservedJob[LLMBenchmark, Progress]):
    """Observation of a benchmark at one time."""

    referred: Referred | None = None
    """Target of the benchmark's reference. None if the benchmark has no reference."""
    service: LLMService | None = None
    """LLMService of the reference, if its spec is valid."""

    @property
    def job_ended(self) -> tuple[bool, str] | None:
        """Return the Job's success and Kubernetes' message, or None if the Job has not ended."""
        status = mapping(mapping(self.job).get("status"))
        if condition(status, "Complete").get("status") == "True":
            return True, ""
        failed = condition(status, "Failed")
        if failed.get("status") == "True":
            return False, f"{text(failed.get('reason'))}: {text(failed.get('message'))}"
        return None
