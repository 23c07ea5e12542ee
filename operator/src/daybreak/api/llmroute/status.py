"""What the operator says of an LLMRoute. Gateways go by it."""

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
    """The conditions, in the order in which they are written."""

    ACCEPTED = "Accepted"
    """True: every name of the route leads to its backends."""
    CANARY = "Canary"
    """True: the canary goes on, or has done all steps. False: it was worse than the others, and gets nothing.
    Absent: there is none."""
    READY = "Ready"
    """True: it is accepted, and every backend with a weight is there. One that sleeps is."""
    STALLED = "Stalled"
    """True: somebody has to act (kstatus: failed). Clears by itself when the cause is gone."""


class RouteReason(StrEnum):
    """Every reason that a condition of an LLMRoute can carry."""

    ROUTED = "Routed"
    """Nothing is left to do."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be used; the message names each field and what it should be."""
    NAME_CONFLICT = "NameConflict"
    """A name is that of a model, or of an older route. The route's other names lead to its backends."""
    ROUTE_TO_ROUTE = "RouteToRoute"
    """A backend is a route, or the name of one: a route leads to models only."""
    BACKEND_NOT_FOUND = "BackendNotFound"
    """A backend's service, or its model, is not there. The others share what it would get."""
    BACKEND_PROTOCOL = "BackendProtocol"
    """A backend's ModelServer does not speak OpenAI's API. The others share what it would get."""
    BACKEND_PENDING = "BackendPending"
    """A backend's service has just come, and has no address yet."""
    BACKEND_FAILED = "BackendFailed"
    """A backend cannot start; its service says why."""
    KEY_NOT_FOUND = "KeyNotFound"
    """A match asks for an API key that none of its services has, and no request takes it; or the route sticks
    to keys, and none of its services has any."""
    ADDRESS_CONFLICT = "AddressConflict"
    """The route cannot have an address of its own: a Service of its name belongs to somebody else, or all
    ports for such addresses are given. Its names are served at `llm`."""
    ADDRESS_REJECTED = "AddressRejected"
    """The API server refused the route's own Service; the message is its own."""
    CANARY_PROGRESSING = "CanaryProgressing"
    """The canary is on its way; the message says in which step, and what it waits for."""
    CANARY_PROMOTED = "CanaryPromoted"
    """The canary has done all steps, and keeps the share of the last one."""
    CANARY_ROLLED_BACK = "CanaryRolledBack"
    """The canary was worse than the others, or could not start, and gets nothing; the message says the
    figures."""
    GATEWAY_DISABLED = "GatewayDisabled"
    """Gateways are switched off, and nothing else would carry out a route."""


class BackendState(StrEnum):
    """One word on a backend."""

    OPEN = "Open"
    """It answers."""
    HOLDING = "Holding"
    """It sleeps, wakes, or is being replaced: requests for it are held."""
    FAILED = "Failed"
    """It cannot start; requests for it are refused."""
    PENDING = "Pending"
    """It has no address yet."""
    MISSING = "Missing"
    """There is no such service or model, or it does not speak OpenAI's API."""


class BackendStatus(ApiModel):
    """A backend as gateways use it."""

    kind: BackendKind = BackendKind.LLM_SERVICE
    """What serves the model."""
    service: str
    """The LLMService or ModelServer."""
    model: str
    """The model."""
    weight: int
    """Its share, compared with the others: that of the spec, or what the canary's step makes of it."""
    share: float
    """The same as a part of 1, of what the backends that are there get."""
    state: BackendState
    """One word on it."""
    requests: int = 0
    """Requests that it has got since `counts.since`, and has kept. This and what follows is written every 30
    seconds at most."""
    fallback_requests: int = 0
    """Requests that were sent to it and that it did not take: they went on to a fallback."""
    errors: int = 0
    """Those of them that were answered 5xx."""
    observed_share: float = 0.0
    """What it has got as a part of 1, of the requests of all backends."""
    ttft_p95: float | None = None
    """Seconds within which 95 % of its answers began, to a fifth; absent: there are none. Of answers 2xx to
    requests that were not held."""
    latency_p99: float | None = None
    """Seconds within which 99 % of them ended, in the same way."""


class LLMRouteStatus(ApiModel):
    """What the operator has decided. Gateways go by it, not by the spec."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    names: Annotated[list[str], Field(max_length=MAX_NAMES)] = Field(default_factory=list)
    """The names that lead to the backends."""
    backends: Annotated[list[BackendStatus], Field(max_length=MOST_ROWS)] = Field(default_factory=list)
    """The backends, in the order of the spec, and then the other models that requests may go to."""
    matches: Annotated[list[RouteMatch], Field(max_length=MAX_MATCHES)] = Field(default_factory=list)
    """Requests that take other backends: those of the first match that holds."""
    fallback: Annotated[
        list[RouteFallback], Field(max_length=MAX_FALLBACKS, json_schema_extra=list_by("service", "model"))
    ] = Field(default_factory=list)
    """Where a request goes that its backend does not take, one after the other."""
    external_fallback: ExternalStatus | None = None
    """Where it goes that none of them takes."""
    mirror: RouteMirror | None = None
    """The model that gets copies of requests."""
    counts: RouteCounts | None = None
    """Since when it is counted what backends get; absent: nothing is routed."""
    canary: CanaryStatus | None = None
    """How far the canary is; absent: there is none."""
    session_affinity_header: str | None = None
    """The header by whose value requests stay together."""
    session_affinity_key: bool | None = None
    """Whether those with API keys of one name do."""
    sleeping_backends: Asleep | None = None
    """What becomes of the share of a backend that sleeps."""
    url: str | None = None
    """The base URL of the route's own address, for OpenAI clients inside the cluster; absent: it has none."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The gateway's port for it."""
    conditions: Annotated[list[Condition], Field(max_length=8, json_schema_extra=list_by("type"))] = Field(
        default_factory=list
    )
    """Conditions: Accepted, Canary, Ready, Stalled."""
