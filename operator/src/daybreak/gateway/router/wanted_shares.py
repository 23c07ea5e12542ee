"""What the router should be told of routes, from their statuses and from services: pure, and lenient.

The operator has decided which names lead where; how services are at this moment is seen here, so that a
backend that falls asleep loses its share at once where it is to be passed over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from daybreak.api.common.scalars import seconds
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.llmroute.spec import Asleep
from daybreak.gateway.agent.wanted import Wanted
from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.hold.table import Gate
from daybreak.gateway.router.shares import Share, Way


def digests(keys: Sequence[ApiKey], model: str, now: float) -> tuple[str, ...]:
    """Of the keys that may ask for a model. Where none of several may, nobody: it is not open to all."""
    may = tuple(key.digest for key in keys if key.may_ask(model, now))
    return may or (NOBODY,) * bool(keys)


def wanted_shares(
    routes: Iterable[Mapping[str, Any]], services: Sequence[Wanted], now: float = 0
) -> list[Share]:
    """The routes that have names, oldest first.

    Args:
        routes: LLMRoutes of the namespace.
        services: Those that requests reach.
        now: Keys that have expired by then, in seconds since 1970, count no more.
    """
    by_name = {service.name: service for service in services}
    taken = {model for service in services for model in service.models}
    found = []
    for route in sorted(routes, key=_seniority):
        status = at(route, "status")
        said = status.get("names")
        names = tuple(
            name for name in map(text, said if isinstance(said, list) else ()) if name and name not in taken
        )
        taken |= set(names)
        if names:
            found.append(_share(_seniority(route)[1], names, status, by_name, now))
    return found


def _seniority(route: Mapping[str, Any]) -> tuple[str, str]:
    metadata = mapping(route.get("metadata"))
    return text(metadata.get("creationTimestamp")), text(metadata.get("name"))


def _share(
    route: str,
    names: tuple[str, ...],
    status: Mapping[str, Any],
    services: Mapping[str, Wanted],
    now: float,
) -> Share:
    ways, awake, keys = [], [], []
    for backend in mappings(status.get("backends")):
        service, model = services.get(text(backend.get("service"))), text(backend.get("model"))
        weight = whole(backend.get("weight"))
        if service is None or model not in service.models or weight <= 0:
            continue
        way = Way(service.name, model, service.port, weight)
        ways.append(way)
        keys.append(digests(service.front.slot.keys, model, now))
        if _gate(service, model) is Gate.OPEN:
            awake.append(way)
    # Where all sleep, somebody must be woken.
    chosen = awake or ways if status.get("asleep") == Asleep.SKIP else ways
    sticky, since = text(status.get("stickyHeader")), text(at(status, "counts").get("since"))
    fallback = []
    for backend in mappings(status.get("fallback")):
        service, model = services.get(text(backend.get("service"))), text(backend.get("model"))
        if service is not None and model in service.models:
            fallback.append(Way(service.name, model, service.port, _held_ms(backend)))
            if not ways:
                keys.append(digests(service.front.slot.keys, model, now))
    return Share(route, names, tuple(chosen), sticky, _common(keys), since, tuple(fallback))


def _held_ms(fallback: Mapping[str, Any]) -> int:
    """For how long a request is held before it goes on there, in milliseconds; 0: until its hold ends."""
    after = text(fallback.get("after"))
    try:
        return max(1, int(seconds(after) * 1000)) if after else 0
    except ValueError:
        return 0


def _gate(service: Wanted, model: str) -> Gate:
    slots = (gate.slot for gate in service.gates if model in gate.slot.models)
    return next((slot.gate for slot in slots), Gate.CLOSED)


def _common(keys: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The keys that may ask for all of the models; those that are open to all ask for none."""
    needed = [set(each) for each in keys if each]
    if not needed:
        return ()
    return tuple(sorted(set.intersection(*needed))) or (NOBODY,)
