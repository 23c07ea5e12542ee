"""Spec of an LLMRoute.

As for the other kinds, the models here are the only source of the CRD, the JSON schema and the API page.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.canary import Canary
from daybreak.api.llmroute.external import ExternalFallback
from daybreak.api.llmroute.matches import MAX_MATCHES, RouteBackend, RouteMatch, not_our_own
from daybreak.api.llmroute.references import ModelReference
from daybreak.api.llmroute.words import Asleep
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import list_by
from daybreak.api.schema.scalar_types import ModelName, PositiveDuration

MAX_BACKENDS = 16
"""Maximum number of models that share a name."""
MAX_FALLBACKS = 4
"""Maximum number of fallback models that a request tries, in order."""
MAX_NAMES = 16
"""Maximum number of names of a route."""


class Address(StrEnum):
    """Addresses at which a route's names are served."""

    SHARED = "Shared"
    """The namespace's address `llm`, together with all other names."""
    DEDICATED = "Dedicated"
    """The namespace's address `llm`, and a Service of the route's name that serves no other names."""


class RouteFallback(ModelReference):
    """Model that receives requests that the previous model cannot accept."""

    hold_timeout: PositiveDuration | None = None
    """Maximum time that the previous model, while it sleeps or wakes, holds a request before this model
    receives it. Defaults to the previous model's own hold timeout. Requests that the previous model rejects,
    because it cannot start or too many requests wait, fall back immediately."""


class RouteMirror(ModelReference):
    """Model that receives copies of requests."""

    percent: Annotated[int, Field(ge=1, le=100)] = 100
    """Percentage of the requests that are copied."""
    sleeping_backend: Asleep = Asleep.SKIP
    """Effect of copies on a sleeping model. `Wake` lets them wake the model. `Skip`, the default, sends no
    copies to a model that sleeps, wakes or cannot start."""


class SessionAffinity(ApiModel):
    """Session affinity, which sends related requests to the same backend."""

    rules = (
        not_our_own("header"),
        Rule(
            "has(self.header) || (has(self.apiKey) && self.apiKey)",
            "one of header and apiKey is needed: else nothing would stay together",
            lambda self: self.header is not None or self.api_key,
        ),
    )

    header: Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$")] | None = None
    """Header whose value selects the backend. Requests with the same value go to the same backend, through
    every gateway. Values are distributed by weight; a change of weights moves as few values as possible.
    Requests without the header are distributed by `apiKey` if set, and individually otherwise. If unset,
    headers are ignored."""
    api_key: bool = False
    """If true, requests with an API key of the same name (`access.apiKeys[].name` of the services) go to the
    same backend. They are distributed like header values, if `header` does not apply. A key keeps its backend
    if the value in its Secret changes."""


def _same(field: str) -> str:
    """Return a CEL expression that is true if a backend `b` is the model of a field."""
    return " && ".join(f"b.{part} == self.{field}.{part}" for part in ("kind", "service", "model"))


class LLMRouteSpec(ApiModel):
    """Names of a route, and the models that share them."""

    rules = (
        Rule(
            f"!has(self.mirror) || !has(self.backends) || !self.backends.exists(b, {_same('mirror')})",
            "the mirror must not be one of the backends",
            lambda self: (
                self.mirror is None or not any(self.mirror.is_same(backend) for backend in self.backends)
            ),
        ),
        Rule(
            "!has(self.backends) || self.backends.exists(b, b.weight > 0)",
            "one of the backends needs a weight above 0",
            lambda self: any(backend.weight > 0 for backend in self.backends),
        ),
        Rule(
            f"!has(self.canary) || !has(self.backends) || self.backends.exists(b, {_same('canary')})",
            "the canary must be one of the backends",
            lambda self: self.canary is None or any(self.is_canary(backend) for backend in self.backends),
        ),
        Rule(
            "!has(self.canary) || !has(self.backends) || self.backends.exists(b, "
            f"!({_same('canary')}) && b.weight > 0)",
            "another backend than the canary needs a weight above 0, for comparison",
            lambda self: (
                self.canary is None
                or any(backend.weight > 0 and not self.is_canary(backend) for backend in self.backends)
            ),
        ),
    )

    names: Annotated[
        list[ModelName],
        Field(min_length=1, max_length=MAX_NAMES, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ]
    """Names that clients send as `model` at the namespace's address `llm`. A name that is also a model of a
    service leads to that model. A name that is also in another route leads to the older route."""
    backends: Annotated[
        list[RouteBackend],
        Field(min_length=1, max_length=MAX_BACKENDS, json_schema_extra=list_by("service", "model")),
    ]
    """Models that share the requests. A missing model receives no requests, and the other models receive its
    share."""
    matches: Annotated[list[RouteMatch], Field(max_length=MAX_MATCHES)] = Field(default_factory=list)
    """Requests that take other backends. The first match that applies determines the backends. All other
    requests take `backends`."""
    fallback: Annotated[
        list[RouteFallback], Field(max_length=MAX_FALLBACKS, json_schema_extra=list_by("service", "model"))
    ] = Field(default_factory=list)
    """Models that receive a request that its backend does not accept, in order. Only requests of which no
    part was sent to a model fall back. Models that the request has already tried are skipped."""
    external_fallback: ExternalFallback | None = None
    """Model outside the cluster that follows the last model of `fallback`. It receives only requests that a
    backend of the route did not accept, after that backend's service has checked the API key. If unset, there
    is no external model."""
    mirror: RouteMirror | None = None
    """Model that receives copies of the route's requests. Its responses are discarded. If unset, no requests
    are copied."""
    session_affinity: SessionAffinity | None = None
    """Session affinity, which sends related requests to the same backend. If unset, each request is
    distributed individually."""
    canary: Canary | None = None
    """Backend whose share of the requests increases in steps. If unset, the weights apply."""
    sleeping_backends: Asleep = Asleep.WAKE
    """Handling of the share of a backend that sleeps, wakes or cannot start: `Wake` or `Skip`."""
    address: Address = Address.SHARED
    """Addresses at which the names are served. `Shared`: the namespace's address `llm`. `Dedicated`: also
    `http://NAME.NAMESPACE.svc/v1`, a Service of the route's name that serves only the route's names."""

    def every(self) -> list[RouteBackend]:
        """Return the backends, then with weight 0 the other models that receive requests."""
        found = list(self.backends)
        for each in self._others():
            if not any(each.is_same(other) for other in found):
                found.append(RouteBackend(kind=each.kind, service=each.service, model=each.model, weight=0))
        return found

    def is_needed(self, backend: RouteBackend) -> bool:
        """Return True if a model receives requests for a reason other than its share."""
        return any(backend.is_same(each) for each in self._others())

    def _others(self) -> Iterator[ModelReference]:
        yield from self.fallback
        if self.mirror is not None:
            yield self.mirror
        for match in self.matches:
            yield from (backend for backend in match.backends if backend.weight > 0)

    def is_canary(self, backend: RouteBackend) -> bool:
        """Return True if this backend is the canary."""
        return self.canary is not None and self.canary.is_same(backend)
