"""A canary: a backend that gets more requests step by step, as long as it does as well as the others."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.references import ModelReference
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import PositiveDuration

MAX_STEPS = 32
"""Most steps of a canary."""
MAX_RUN = 63
"""Longest name of a run, in characters."""
_WORDS_LIMIT = 2048

Times = Annotated[str, Field(max_length=2048)]
"""Histogram of times: `BUCKET:REQUESTS`, separated by spaces."""


class CanaryStep(ApiModel):
    """A share, and for how long."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Per cent of the requests that the canary gets. The other backends share the rest by their weights."""
    duration: PositiveDuration
    """How long at least. It goes on only when enough requests have come, too."""


class CanaryAnalysis(ApiModel):
    """How much worse than the other backends a canary may be. Beyond it, and beyond what can be chance, it
    gets no more requests."""

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
    """By how much its part of answers 5xx may be above that of the others, as a part of 1: with 0.01 it may
    have 3 % where they have 2 %. At weight 100 it is compared with their earlier results; without these, the
    limit is absolute."""
    ttft_p95: Annotated[float, Field(ge=1, le=100)] | None = None
    """How many times as long as theirs it may be until 95 % of its answers have begun."""
    latency_p99: Annotated[float, Field(ge=1, le=100)] | None = None
    """How many times as long as theirs it may be until 99 % of its answers have ended."""
    max_error_rate: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Maximum part of 5xx among its answers, as a part of 1, regardless of the other backends. It applies at
    every weight."""
    min_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """So many answers of its own, and as many of the others, are needed in each step before it goes on, and
    before times are compared. Errors are compared from the first one on."""


class Canary(ModelReference):
    """One of the backends gets more of the requests step by step. Its own `weight` is not used meanwhile, nor
    afterwards, as long as this stands here."""

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
    """Its shares, one after the other. After the last one it keeps that one's."""
    analysis: CanaryAnalysis
    """When it is worse than the others."""
    run_id: Annotated[str, Field(alias="runID", max_length=MAX_RUN)] = ""
    """Any text. Where it changes the canary begins anew, as after another `service` or `model`."""


class CanaryPhase(StrEnum):
    """How far a canary is."""

    PROGRESSING = "Progressing"
    """On its way."""
    PROMOTED = "Promoted"
    """It has done all steps, and keeps the last one's share."""
    ROLLED_BACK = "RolledBack"
    """It was worse than the others, and gets nothing."""


class CanaryBaseline(ApiModel):
    """Results of the other backends from before the present step: a canary at weight 100 is compared with
    them."""

    answered: int = 0
    """Number of requests that ended with an answer."""
    errors: int = 0
    """Number of those whose answer was a 5xx."""
    first_byte_buckets: Times = ""
    """Times until the first byte, in the form of `status.counts.ended[].firstByte`."""
    latency_buckets: Times = ""
    """Times until the end, in the same form."""


class CanaryStatus(ApiModel):
    """How far the canary is. Its share stands with its backend."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """What serves its model."""
    service: Annotated[str, Field(max_length=253)]
    """The LLMService or ModelServer of the backend."""
    model: Annotated[str, Field(max_length=253)]
    """Its model."""
    run_id: Annotated[str, Field(alias="runID", max_length=MAX_RUN)] = ""
    """Which run it is."""
    phase: CanaryPhase
    """How far it is."""
    step: Annotated[int, Field(ge=1)]
    """The step that it is in, or was in last: the first one is 1."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """Per cent of the requests that it gets."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When that step began, or when it came to its end."""
    stable: CanaryBaseline | None = None
    """Results of the other backends in earlier steps. If the first step has weight 100: from before it."""
    message: Annotated[str, Field(max_length=_WORDS_LIMIT)] = ""
    """What it waits for, or by which figures it has come to its end."""
