"""Everything that one reconcile of a benchmark decides on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak.api.common.unstructured import condition, mapping, text
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService


@dataclass(frozen=True)
class Progress:
    """What a benchmark's job says of itself."""

    state: str
    """`Running`, `Succeeded` or `Failed`."""
    final: bool
    """Whether it is its last word."""
    now: str = ""
    stopped: str = ""
    engine_starts: int = 0
    noise: float | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    best: Mapping[str, Any] | None = None
    baseline: Mapping[str, Any] | None = None
    gain: Mapping[str, Any] | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Observed:
    """What is seen of a benchmark at one moment."""

    manifest: Mapping[str, Any]
    benchmark: LLMBenchmark | None
    """None: its spec has not the form of the API."""
    problems: tuple[str, ...]
    """What keeps the spec from being built."""
    now: datetime
    service: LLMService | None = None
    """The LLMService of its reference."""
    job: Mapping[str, Any] | None = None
    pods: tuple[Mapping[str, Any], ...] = ()
    progress: Progress | None = None
    foreign: tuple[str, ...] = ()
    """Names that somebody else has taken, as `Kind/name`."""
    refusal: str = ""
    """What the API server has refused."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before."""
        return mapping(self.manifest.get("status"))

    @property
    def finished(self) -> bool:
        """Whether its end stands in the status."""
        return bool(self.status.get("finished"))

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
