"""Request counts of the backends of an LLMRoute, which the operator stores in its status."""

from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.canary import Times
from daybreak.api.llmroute.matches import MAX_MATCH_BACKENDS, MAX_MATCHES
from daybreak.api.llmroute.spec import MAX_BACKENDS, MAX_FALLBACKS
from daybreak.api.llmroute.words import BackendKind
from daybreak.api.schema.base import ApiModel

MOST_ROWS = MAX_BACKENDS + MAX_FALLBACKS + MAX_MATCHES * MAX_MATCH_BACKENDS + 2
"""Maximum number of models that requests of one route can reach."""
MOST_GONE = 64
"""Maximum number of terminated gateways that are recorded by name."""

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class EndedCounts(ApiModel):
    """Requests that terminated gateways had sent to a backend."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """Kind of the object that serves the model."""
    service: Annotated[str, Field(max_length=253)]
    """Name of the LLMService or ModelServer."""
    model: Annotated[str, Field(max_length=253)]
    """Name of the model."""
    sent: int = 0
    """Number of requests that were sent to the backend."""
    answered: int = 0
    """Number of requests that ended with a response."""
    errors: int = 0
    """Number of requests that ended with a 5xx response."""
    fallback_requests: int = 0
    """Number of requests that the backend did not accept and that continued to a fallback."""
    first_byte_buckets: Times = ""
    """Histogram of the times to the first byte: `BUCKET:REQUESTS`. Each bucket is a fifth wider than the
    previous one, and the first one contains all times up to 10 ms."""
    latency_buckets: Times = ""
    """Histogram of the times to the end of the response, in the form of `firstByteBuckets`."""


class RouteCounts(ApiModel):
    """Request counts of the backends, with their start time and their last update."""

    start_time: Time
    """Start time of the counts: the last change of a weight or of the canary's share. Gateways count from
    this time."""
    update_time: Time
    """Time when the counts of the backends were last written."""
    terminated_gateways: Annotated[list[str], Field(max_length=MOST_GONE)] = Field(default_factory=list)
    """Terminated gateways whose requests are included in `ended`."""
    ended: Annotated[list[EndedCounts], Field(max_length=MOST_ROWS)] = Field(default_factory=list)
    """Requests that terminated gateways had sent to each backend."""
