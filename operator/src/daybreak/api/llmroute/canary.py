"""Canary: a backend whose share increases in steps while it performs as well as the other backends."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.references import ModelReference
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import PositiveDuration

MAX_STEPS = 32
"""Maximum number of steps of a canary."""
MAX_RUN = 63
"""Maximum length of a run identifier in characters."""
_WORDS_LIMIT = 2048

Times = Annotated[str, Field(max_length=2048)]
"""Histogram of times: `BUCKET:REQUESTS`, separated by spaces."""


class CanaryStep(ApiModel):
    """Share of the canary in one step, and the step's minimum duration."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Percentage of the requests that the canary receives. The other backends share the rest by their
    weights."""
    duration: PositiveDuration
    """Minimum duration of the step. The canary also stays in the step until it has enough requests."""


class CanaryAnalysis(ApiModel):
    """Limits on how much worse the canary may be than the other backends.

    If the canary exceeds a limit beyond statistical noise, it receives no more requests.
    """

    rules = (
        Rule(
            "has(self.errorRate) || has(self.ttftP95) || has(self.latencyP99)",
            "one of errorRate, ttftP95 and latencyP99 is needed: else nothing would stop the canary",
            lambda self: any(
                limit is not None for limit in (self.error_rate, self.ttft_p95, self.latency_p99)
            ),
        ),
    )

    error_rate: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Maximum excess of the canary's fraction of 5xx responses over that of the other backends. With 0.01 the
    canary may have 3 % if they have 2 %. At weight 100 the canary is compared with their earlier results;
    without these, the limit is absolute."""
    ttft_p95: Annotated[float, Field(ge=1, le=100)] | None = None
    """Maximum ratio between the P95 time to the first byte of the canary and that of the other backends."""
    latency_p99: Annotated[float, Field(ge=1, le=100)] | None = None
    """Maximum ratio between the P99 time to the end of the response of the canary and that of the other
    backends."""
    max_error_rate: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Maximum fraction of 5xx among the canary's responses, from 0 to 1, regardless of the other backends. It
    applies at every weight."""
    min_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Minimum number of the canary's responses in each step before it proceeds and before times are compared.
    To proceed, the other backends need the same number, except at weight 100. Errors are compared from the
    first response on."""


class Canary(ModelReference):
    """Backend whose share of the requests increases in steps.

    While `canary` is set, also after the last step, the `weight` of this backend is ignored.
    """

    rules = (
        Rule(
            "!has(self.steps) || self.steps.map(s, s.weight).isSorted()",
            "the weights of the steps must not fall",
            lambda self: all(
                one.weight <= next_.weight for one, next_ in zip(self.steps, self.steps[1:], strict=False)
            ),
        ),
    )

    steps: Annotated[list[CanaryStep], Field(min_length=1, max_length=MAX_STEPS)]
    """Steps of the canary, in order. After the last step the canary keeps that step's share."""
    analysis: CanaryAnalysis
    """Limits beyond which the canary is rolled back."""
    run_id: Annotated[str, Field(alias="runID", max_length=MAX_RUN)] = ""
    """Identifier of the run, any text. If it changes, the canary restarts, as it does with another `service`
    or `model`."""


class CanaryPhase(StrEnum):
    """Progress of a canary."""

    PROGRESSING = "Progressing"
    """The canary is in one of its steps."""
    PROMOTED = "Promoted"
    """The canary has completed all steps and keeps the share of the last one."""
    ROLLED_BACK = "RolledBack"
    """The canary was worse than the other backends and receives no requests."""


class CanaryBaseline(ApiModel):
    """Results of the other backends from before the current step.

    A canary at weight 100 is compared with them.
    """

    answered: int = 0
    """Number of requests that ended with a response."""
    errors: int = 0
    """Number of requests that ended with a 5xx response."""
    first_byte_buckets: Times = ""
    """Histogram of the times to the first byte, in the form of `status.counts.ended[].firstByteBuckets`."""
    latency_buckets: Times = ""
    """Histogram of the times to the end of the response, in the form of
    `status.counts.ended[].firstByteBuckets`."""


class CanaryStatus(ApiModel):
    """Progress of the canary. Its share is listed with its backend."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """Kind of the object that serves the canary's model."""
    service: Annotated[str, Field(max_length=253)]
    """Name of the LLMService or ModelServer of the canary."""
    model: Annotated[str, Field(max_length=253)]
    """Name of the canary's model."""
    run_id: Annotated[str, Field(alias="runID", max_length=MAX_RUN)] = ""
    """Identifier of the run, from `spec.canary.runID`."""
    phase: CanaryPhase
    """Phase of the canary."""
    step: Annotated[int, Field(ge=1)]
    """Number of the current or last step. The first step is 1."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """Percentage of the requests that the canary receives."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Start time of the current step, or the time when the canary was promoted or rolled back."""
    stable: CanaryBaseline | None = None
    """Results of the other backends in earlier steps. If the first step has weight 100, results from before
    that step."""
    message: Annotated[str, Field(max_length=_WORDS_LIMIT)] = ""
    """Condition that the canary waits for, or the figures by which it was promoted or rolled back."""
