"""Status of an LLMRoute, which the operator writes and gateways apply."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.llmroute.canary import CanaryStatus
from daybreak.api.llmroute.counts import MOST_ROWS, RouteCounts
from daybreak.api.llmroute.external import ExternalStatus
from daybreak.api.llmroute.matches import MAX_MATCHES, RouteMatch
from daybreak.api.llmroute.spec import MAX_FALLBACKS, MAX_NAMES, RouteFallback, RouteMirror
from daybreak.api.llmroute.words import Asleep, BackendKind
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import list_by


class RouteConditionType(StrEnum):
    """Condition types, in the order in which they are written."""

    ACCEPTED = "Accepted"
    """True if every name of the route leads to its backends."""
    CANARY = "Canary"
    """True if the canary is in progress or has completed all steps. False if it was worse than the other
    backends or could not start, and receives no requests. Absent if there is no canary."""
    READY = "Ready"
    """True if the route is accepted and every model that requests can reach is available. A sleeping model is
    available."""
    STALLED = "Stalled"
    """True if action is required (kstatus: failed). Clears automatically when the cause is resolved."""


class RouteReason(StrEnum):
    """Reasons that a condition of an LLMRoute can have."""

    ROUTED = "Routed"
    """The route is complete, and no work is left."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is invalid. The message names each field and the expected value."""
    NAME_CONFLICT = "NameConflict"
    """A name is that of a model or of an older route. The route's other names lead to its backends."""
    ROUTE_TO_ROUTE = "RouteToRoute"
    """A backend is a route, or the name of one. A route can lead to models only."""
    BACKEND_NOT_FOUND = "BackendNotFound"
    """A backend's service or its model does not exist. The other backends receive its share."""
    BACKEND_PROTOCOL = "BackendProtocol"
    """A backend's ModelServer does not implement the OpenAI API. The other backends receive its share."""
    BACKEND_PENDING = "BackendPending"
    """A backend's service is new and has no address yet."""
    BACKEND_FAILED = "BackendFailed"
    """A backend cannot start. The status of its service states the reason."""
    KEY_NOT_FOUND = "KeyNotFound"
    """A match requires an API key that none of its services has, so no request takes the match. Or session
    affinity uses API keys, and none of the route's services has any."""
    ADDRESS_CONFLICT = "AddressConflict"
    """The route cannot have a dedicated address: a Service of its name has another owner, or all ports for
    such addresses are in use. The names are served at `llm`."""
    ADDRESS_REJECTED = "AddressRejected"
    """The API server rejected the Service of the route's dedicated address. The message quotes the API
    server."""
    CANARY_PROGRESSING = "CanaryProgressing"
    """The canary is in progress. The message states the step and the condition for the next one."""
    CANARY_PROMOTED = "CanaryPromoted"
    """The canary has completed all steps and keeps the share of the last one."""
    CANARY_ROLLED_BACK = "CanaryRolledBack"
    """The canary was worse than the other backends or could not start, and receives no requests. The message
    states the figures."""
    GATEWAY_DISABLED = "GatewayDisabled"
    """Gateways are disabled, and no other component applies routes."""


class BackendState(StrEnum):
    """Serving state of a backend."""

    OPEN = "Open"
    """The backend answers requests."""
    HOLDING = "Holding"
    """The backend sleeps, wakes or is being replaced. Its requests are held."""
    FAILED = "Failed"
    """The backend cannot start. Its requests are rejected."""
    PENDING = "Pending"
    """The backend has no address yet."""
    MISSING = "Missing"
    """The service or model does not exist, or does not implement the OpenAI API."""


class BackendStatus(ApiModel):
    """Backend as gateways use it."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """Kind of the object that serves the model."""
    service: str
    """Name of the LLMService or ModelServer."""
    model: str
    """Name of the model."""
    weight: int
    """Weight relative to the other backends, from the spec or from the canary's step."""
    share: float
    """Expected fraction of the requests of the existing backends, from 0 to 1, computed from the weights."""
    state: BackendState
    """Serving state of the backend."""
    requests: int = 0
    """Number of requests since `counts.startTime` that the backend received and kept. This field and the
    following ones are updated at most every 30 seconds."""
    fallback_requests: int = 0
    """Number of requests that were sent to the backend, were not accepted, and continued to a fallback."""
    errors: int = 0
    """Number of requests that ended with a 5xx response."""
    observed_share: float = 0.0
    """Observed fraction of the requests of all backends that this backend received, from 0 to 1."""
    ttft_p95: float | None = None
    """P95 time to the first byte in seconds, accurate to a fifth of the value. It includes only 2xx responses
    to requests that were not held. Absent if there are none."""
    latency_p99: float | None = None
    """P99 time to the end of the response in seconds, accurate to a fifth of the value. It includes only 2xx
    responses to requests that were not held. Absent if there are none."""


class LLMRouteStatus(ApiModel):
    """State of an LLMRoute as decided by the operator. Gateways apply it instead of the spec."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    names: Annotated[list[str], Field(max_length=MAX_NAMES)] = Field(default_factory=list)
    """Names that lead to the backends."""
    backends: Annotated[list[BackendStatus], Field(max_length=MOST_ROWS)] = Field(default_factory=list)
    """Backends in the order of the spec, followed by the other models that requests can reach."""
    matches: Annotated[list[RouteMatch], Field(max_length=MAX_MATCHES)] = Field(default_factory=list)
    """Requests that take other backends. The first match that applies determines the backends."""
    fallback: Annotated[
        list[RouteFallback], Field(max_length=MAX_FALLBACKS, json_schema_extra=list_by("service", "model"))
    ] = Field(default_factory=list)
    """Models that receive a request that its backend does not accept, in order."""
    external_fallback: ExternalStatus | None = None
    """Model outside the cluster that receives requests that no model of `fallback` accepts."""
    mirror: RouteMirror | None = None
    """Model that receives copies of requests."""
    counts: RouteCounts | None = None
    """Request counts of the backends and the time from which they count. Absent if nothing is routed."""
    canary: CanaryStatus | None = None
    """Progress of the canary. Absent if there is no canary."""
    session_affinity_header: str | None = None
    """Header whose value selects the backend of a request."""
    session_affinity_key: bool | None = None
    """True if requests with API keys of the same name go to the same backend."""
    sleeping_backends: Asleep | None = None
    """Handling of the share of a sleeping backend."""
    url: str | None = None
    """Base URL of the route's dedicated address, for OpenAI clients inside the cluster. Absent if the route
    has none."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the gateway for the dedicated address."""
    conditions: Annotated[list[Condition], Field(max_length=8, json_schema_extra=list_by("type"))] = Field(
        default_factory=list
    )
    """Conditions: Accepted, Canary, Ready, Stalled."""
