"""Decision on the backends of each name: a pure function of a namespace's LLMRoutes and their backends."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from daybreak.api.common import names
from daybreak.api.llmroute.canary import Canary
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.matches import RouteBackend
from daybreak.api.llmroute.status import BackendState, RouteReason
from daybreak.api.llmroute.words import Asleep
from daybreak.kinds.llmroute.decide.canary import CanaryObservation, Move, canary_before, move, weights
from daybreak.kinds.llmroute.decide.counting import Counted, anew, count, together, weights_before
from daybreak.kinds.llmroute.observe.observed import (
    Models,
    Observed,
    ObservedRoute,
    OwnAddress,
    ServiceName,
    service_of,
)
from daybreak.problems.redact import excerpt
from daybreak.protocol.tallies import Tally

_REFUSAL_LIMIT = 2000


@dataclass(frozen=True)
class Problem:
    """Problem that keeps a route from working as specified."""

    reason: RouteReason
    message: str
    waits: bool = False
    """True if the problem ends without action."""


@dataclass(frozen=True)
class Decision:
    """Decision on one route."""

    names: tuple[str, ...] = ()
    """Names that lead to the route's backends."""
    states: tuple[BackendState, ...] = ()
    """States of the models that may receive requests, in the order of `LLMRouteSpec.every`."""
    weights: tuple[int, ...] = ()
    """Weights of these models, relative to each other."""
    counted: Counted | None = None
    """Request counts of these models."""
    canary: Move | None = None
    """Position of the canary. None if there is no canary."""
    unaccepted: tuple[Problem, ...] = ()
    """Problems that keep some names from leading to the route's backends."""
    unready: tuple[Problem, ...] = field(default=())
    """Problems of backends with a weight, of API keys, and of the dedicated address."""


def decide(observed: Observed, now: datetime) -> dict[str, Decision]:
    """Return the decision on each route, by its name."""
    models = {model: each for each in sorted(observed.services) for model in observed.services[each]}
    owners = {name: f"model {name} of {each.words}" for name, each in models.items()}
    called = {name for each in observed.routes if each.route is not None for name in each.route.spec.names}
    found = {}
    for each in observed.routes:
        found[each.name] = _one(each, observed, owners, called, now)
        for name in found[each.name].names:
            owners[name] = f"older LLMRoute {each.name}"
    return found


def _one(
    each: ObservedRoute, observed: Observed, owners: Mapping[str, str], called: Collection[str], now: datetime
) -> Decision:
    if each.route is None:
        return Decision(unaccepted=(Problem(RouteReason.INVALID_SPEC, each.problem),))
    if not observed.gateway:
        off = "gateways are switched off (the chart's value gateway.enabled), and routes require them"
        return Decision(unaccepted=(Problem(RouteReason.GATEWAY_DISABLED, off),))
    route = each.route
    states = tuple(_state(backend, observed.services) for backend in route.spec.every())
    shares = _shares(each, route, states, now)
    problems = chain.from_iterable(
        _of_backend(backend, state, observed, called)
        for backend, state, weight in zip(route.spec.every(), states, shares.weights, strict=True)
        if weight > 0 or route.spec.is_needed(backend)
    )
    return Decision(
        names=tuple(name for name in route.spec.names if name not in owners),
        states=states,
        weights=shares.weights,
        counted=shares.counted,
        canary=shares.canary,
        unaccepted=tuple(_taken(route, owners)),
        unready=(*problems, *_keys(route, observed.keys), *_address(each.address)),
    )


@dataclass(frozen=True)
class _Shares:
    """Weights of the backends, and their counts since those weights apply."""

    weights: tuple[int, ...]
    counted: Counted
    canary: Move | None


def _shares(each: ObservedRoute, route: LLMRoute, states: Sequence[BackendState], now: datetime) -> _Shares:
    backends, canary = route.spec.every(), route.spec.canary
    called = {one.counted_as for one in backends}
    if route.spec.external_fallback is not None:
        called.add(route.spec.external_fallback.counted_as)
    counted = count(each.status, called, each.reported)
    shares, moved = tuple(backend.weight for backend in backends), None
    if canary is not None:
        observed = _canary_observation(route, canary, states, counted)
        moved = move(canary, canary_before(each.status), observed, now)
        shares = weights(backends, canary, moved.status.weight)
    named = {one.counted_as: weight for one, weight in zip(backends, shares, strict=True)}
    begins = named != weights_before(each.status) or (moved is not None and moved.moved)
    return _Shares(shares, anew(each.status, now) if counted is None or begins else counted, moved)


def _canary_observation(
    route: LLMRoute, canary: Canary, states: Sequence[BackendState], counted: Counted | None
) -> CanaryObservation:
    totals = counted.totals if counted is not None else {}
    pairs = zip(route.spec.every(), states, strict=True)
    state = next(state for one, state in pairs if route.spec.is_canary(one))
    mine = totals.get(canary.counted_as, Tally())
    # A model that only receives requests that others do not accept is no basis for a comparison.
    others = (one for one in route.spec.backends if one.weight > 0 and not route.spec.is_canary(one))
    stable = together(totals.get(one.counted_as, Tally()) for one in others)
    return CanaryObservation(mine, stable, state, skipped=route.spec.sleeping_backends is Asleep.SKIP)


def _taken(route: LLMRoute, owners: Mapping[str, str]) -> Iterator[Problem]:
    for name in route.spec.names:
        if owner := owners.get(name):
            yield Problem(
                RouteReason.NAME_CONFLICT, f"the name {name} is that of the {owner}, which gets its requests"
            )


def _address(address: OwnAddress | None) -> Iterator[Problem]:
    """Yield the problems of the dedicated address that a route requests."""
    if address is None:
        return
    if address.foreign:
        message = (
            f"{address.foreign} exists and is not managed by Daybreak: delete it, or rename the LLMRoute"
        )
        yield Problem(RouteReason.ADDRESS_CONFLICT, message)
    elif address.port is None:
        first, last = names.GATEWAY_ROUTE_PORTS
        message = (
            f"the namespace's gateway has {last - first + 1} dedicated addresses for routes, and all are used"
        )
        yield Problem(RouteReason.ADDRESS_CONFLICT, message)
    elif address.leaving:
        message = "the Service of an earlier route with this name still exists"
        yield Problem(RouteReason.ADDRESS_CONFLICT, message, waits=True)
    elif address.refusal:
        message = f"the API server refused {excerpt(address.refusal, _REFUSAL_LIMIT)}"
        yield Problem(RouteReason.ADDRESS_REJECTED, message)


def _keys(route: LLMRoute, keys: Mapping[ServiceName, Collection[str]]) -> Iterator[Problem]:
    """Yield the problems of API keys that a match or the session affinity needs and that no service has."""
    for number, match in enumerate(route.spec.matches, 1):
        services = dict.fromkeys(service_of(backend) for backend in match.backends if backend.weight > 0)
        there = {name for service in services for name in keys.get(service, ())}
        for name in match.api_keys or ():
            if name not in there:
                wants = f"match {number} asks for the API key {name}"
                message = (
                    f"{wants}, and no service that it leads to has one of that name ({_names(services)})"
                )
                yield Problem(RouteReason.KEY_NOT_FOUND, message)
    if route.spec.session_affinity is not None and route.spec.session_affinity.api_key:
        every = map(service_of, route.spec.every())
        services = dict.fromkeys(service for service in every if service in keys)
        if services and not any(keys[service] for service in services):
            sticks = "sessionAffinity.apiKey: no service that the route leads to has API keys"
            yield Problem(RouteReason.KEY_NOT_FOUND, f"{sticks} ({_names(services)})")


def _names(services: Iterable[ServiceName]) -> str:
    return ", ".join(service.name for service in services)


def _state(backend: RouteBackend, services: Mapping[ServiceName, Models]) -> BackendState:
    return services.get(service_of(backend), {}).get(backend.model, BackendState.MISSING)


def _of_backend(
    backend: RouteBackend, state: BackendState, observed: Observed, called: Collection[str]
) -> Iterator[Problem]:
    service, model = service_of(backend), backend.model
    models, routes = observed.services.get(service), {route.name for route in observed.routes}
    if state is BackendState.FAILED:
        yield Problem(RouteReason.BACKEND_FAILED, f"model {model} of {service.words} cannot start")
    elif state is BackendState.PENDING:
        waits = f"{service.words} has no address for its model {model} yet"
        yield Problem(RouteReason.BACKEND_PENDING, waits, waits=True)
    elif models is None and service.name in routes:
        yield Problem(
            RouteReason.ROUTE_TO_ROUTE,
            f"there is no {service.words}; {service.name} is an LLMRoute, and a route leads to models only",
        )
    elif models is None:
        yield Problem(
            RouteReason.BACKEND_NOT_FOUND, f"there is no {service.words}{_meant(service, observed)}"
        )
    elif protocol := observed.protocols.get(service):
        message = f"{service.words} has protocol {protocol}, and a route leads to models of OpenAI's API only"
        yield Problem(RouteReason.BACKEND_PROTOCOL, message)
    elif state is BackendState.MISSING and model in called:
        yield Problem(
            RouteReason.ROUTE_TO_ROUTE,
            f"{service.words} has no model {model}; {model} is a name of an LLMRoute, and a route leads to "
            "models only",
        )
    elif state is BackendState.MISSING:
        there = ", ".join(sorted(models)) or "none"
        message = f"{service.words} has no model {model}; available: {there}"
        yield Problem(RouteReason.BACKEND_NOT_FOUND, message)


def _meant(service: ServiceName, observed: Observed) -> str:
    """Return a hint at objects of the same name and another kind; empty if there are none."""
    others = sorted(other.kind for other in observed.services if other.name == service.name)
    return f"; the name exists as: {', '.join(others)}" if others else ""
