"""What a person asks for: the spec of an LLMRoute.

As with the other kinds, the models here are the one source of the CRD, the JSON schema and the API page.
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
"""Most models that share a name."""
MAX_FALLBACKS = 4
"""Most models that a request goes on to, one after the other."""
MAX_NAMES = 16
"""Most names of a route."""


class Address(StrEnum):
    """Where a route's names are served."""

    SHARED = "Shared"
    """At the namespace's address `llm`, beside all other names."""
    DEDICATED = "Dedicated"
    """There, and at a Service of the route's name, where no other name is served."""


class RouteFallback(ModelReference):
    """A model that gets the requests that the one before it cannot take."""

    hold_timeout: PositiveDuration | None = None
    """For how long a request is held at most by the model before it, which sleeps or wakes, until it comes
    here. Unset: until that one's hold ends. Who is refused there, since it cannot start or too many wait,
    comes here at once."""


class RouteMirror(ModelReference):
    """A model that gets copies of requests."""

    percent: Annotated[int, Field(ge=1, le=100)] = 100
    """Of so many requests in a hundred."""
    sleeping_backend: Asleep = Asleep.SKIP
    """Whether copies wake it: `Skip`, the default, sends none to one that sleeps, wakes or cannot start."""


class Sticky(ApiModel):
    """What belongs together goes to the same backend."""

    rules = (
        not_our_own("header"),
        Rule(
            "has(self.header) || (has(self.apiKey) && self.apiKey)",
            "one of header and apiKey is needed: else nothing would stay together",
            lambda self: self.header is not None or self.api_key,
        ),
    )

    header: Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$")] | None = None
    """Requests with the same value of this header go to the same backend, through every gateway. Values are
    spread by weight; a change of weights moves as few of them as can be. Requests without the header are
    spread by `apiKey`, else one by one. Unset: no header counts."""
    api_key: bool = False
    """Whether requests with an API key of the same name (`access.apiKeys[].name` of the services) go to the
    same backend, in the same way, where the header says nothing. A key whose Secret gets another value stays
    where it is."""


def _same(field: str) -> str:
    """CEL: a backend `b` is the model of a field."""
    return " && ".join(f"b.{part} == self.{field}.{part}" for part in ("kind", "service", "model"))


class LLMRouteSpec(ApiModel):
    """Names, and the models that share them."""

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
            "beside the canary another backend needs a weight above 0, to be compared with",
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
    """What clients send as `model` at the namespace's address `llm`. A name that a model of a service has
    leads to that model; one that another route has, to the older route."""
    backends: Annotated[
        list[RouteBackend],
        Field(min_length=1, max_length=MAX_BACKENDS, json_schema_extra=list_by("service", "model")),
    ]
    """The models that share the requests. One that is not there gets none; the others share what it would
    get."""
    matches: Annotated[list[RouteMatch], Field(max_length=MAX_MATCHES)] = Field(default_factory=list)
    """Requests that take other backends: those of the first match that holds. The rest takes `backends`."""
    fallback: Annotated[
        list[RouteFallback], Field(max_length=MAX_FALLBACKS, json_schema_extra=list_by("service", "model"))
    ] = Field(default_factory=list)
    """Where a request goes that its backend does not take, one after the other, as long as nothing of it was
    sent to a model. A model that it has come from is passed over."""
    external_fallback: ExternalFallback | None = None
    """A model outside of the cluster, behind the last one of `fallback`. It gets only what a backend of the
    route did not take, after that one's service has looked at the API key. Unset: there is none."""
    mirror: RouteMirror | None = None
    """A model that gets copies of the route's requests; its answers go nowhere. Unset: none does."""
    session_affinity: Sticky | None = None
    """What belongs together goes to the same backend. Unset: each request is spread for itself."""
    canary: Canary | None = None
    """One of the backends that gets more of the requests step by step. Unset: the weights hold."""
    sleeping_backends: Asleep = Asleep.WAKE
    """What becomes of the share of a backend that sleeps, wakes, or cannot start: `Wake` or `Skip`."""
    address: Address = Address.SHARED
    """Where the names are served: `Shared`, at the namespace's address `llm`, or `Dedicated`, also at
    `http://NAME.NAMESPACE.svc/v1`, a Service of the route's name that serves its names and no others."""

    def every(self) -> list[RouteBackend]:
        """The backends, and behind them, without a share, the models that are asked for another reason."""
        found = list(self.backends)
        for each in self._others():
            if not any(each.is_same(other) for other in found):
                found.append(RouteBackend(kind=each.kind, service=each.service, model=each.model, weight=0))
        return found

    def is_needed(self, backend: RouteBackend) -> bool:
        """Whether a model is asked for another reason than its share."""
        return any(backend.is_same(each) for each in self._others())

    def _others(self) -> Iterator[ModelReference]:
        yield from self.fallback
        if self.mirror is not None:
            yield self.mirror
        for match in self.matches:
            yield from (backend for backend in match.backends if backend.weight > 0)

    def is_canary(self, backend: RouteBackend) -> bool:
        """Whether this backend is the canary."""
        return self.canary is not None and self.canary.is_same(backend)
