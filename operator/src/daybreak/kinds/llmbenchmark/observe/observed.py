"""Everything that one reconcile of a benchmark decides on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.unstructured import condition, mapping, text
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService
from daybreak.jobs.observed import JobWords, Referred, SeenJob


@dataclass(frozen=True)
class Progress(JobWords):
    """What a benchmark's job says of itself."""

    now: str = ""
    stopped: str = ""
    engine_starts: int = 0
    noise: float | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    best: Mapping[str, Any] | None = None
    baseline: Mapping[str, Any] | None = None
    gain: Mapping[str, Any] | None = None
    files: Mapping[str, str] | None = None
    """Of the report, which is told at the end; None: none is told."""


@dataclass(frozen=True)
class Observed(SeenJob[LLMBenchmark, Progress]):
    """What is seen of a benchmark at one moment."""

    referred: Referred | None = None
    """What its reference leads to; None: it has none."""
    service: LLMService | None = None
    """The LLMService there, where its spec can be read."""

    @property
    def job_ended(self) -> tuple[bool, str] | None:
        """Whether the Job has succeeded, and Kubernetes' words; None: it has not ended."""
        status = mapping(mapping(self.job).get("status"))
        if condition(status, "Complete").get("status") == "True":
            return True, ""
        failed = condition(status, "Failed")
        if failed.get("status") == "True":
            return False, f"{text(failed.get('reason'))}: {text(failed.get('message'))}"
        return None
