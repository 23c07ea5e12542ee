"""The operator's memory of what backends have got, in the status of an LLMRoute."""

from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.canary import Times
from daybreak.api.llmroute.matches import MAX_MATCH_BACKENDS, MAX_MATCHES
from daybreak.api.llmroute.spec import MAX_BACKENDS, MAX_FALLBACKS
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel

MOST_ROWS = MAX_BACKENDS + MAX_FALLBACKS + MAX_MATCHES * MAX_MATCH_BACKENDS + 2
"""Models that requests of one route may go to."""
MOST_GONE = 64
"""Gateways that have gone and are remembered by name."""

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class EndedCounts(ApiModel):
    """What gateways that have gone had sent to a backend."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """What serves the model."""
    service: Annotated[str, Field(max_length=253)]
    """The LLMService or ModelServer."""
    model: Annotated[str, Field(max_length=253)]
    """The model."""
    sent: int = 0
    """Requests."""
    answered: int = 0
    """Those that ended with an answer."""
    errors: int = 0
    """Those whose answer was a 5xx."""
    fallback_requests: int = 0
    """Those that it did not take, and that went on to a fallback."""
    first_byte_buckets: Times = ""
    """How long it took until their first byte: `BUCKET:REQUESTS`, where each bucket is a fifth wider than the
    one before and the first one has all up to 10 ms."""
    latency_buckets: Times = ""
    """How long it took until their end, in the same form."""


class RouteCounts(ApiModel):
    """Since when the requests of backends are counted, and when that was written."""

    start_time: Time
    """Since when: the last change of a weight, or of what a canary gets. Gateways count from then."""
    update_time: Time
    """When it was written what backends have got."""
    terminated_gateways: Annotated[list[str], Field(max_length=MOST_GONE)] = Field(default_factory=list)
    """Gateways that have gone and whose requests are in `ended`."""
    ended: Annotated[list[EndedCounts], Field(max_length=MOST_ROWS)] = Field(default_factory=list)
    """What they had sent to each backend."""
