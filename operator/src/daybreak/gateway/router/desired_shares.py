"""Desired routes of the router, from the statuses of LLMRoutes and from services; pure and lenient.

The operator decides which names lead where. This module reads the current state of services, so that a
backend that falls asleep loses its share immediately if the route skips sleeping backends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.common.names import kind_and_name, of_owner
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.llmroute.patterns import lua_pattern
from daybreak.api.llmroute.words import COUNTED, Asleep, BackendKind
from daybreak.api.schema.scalars import milliseconds
from daybreak.gateway.desired.gates import DesiredService
from daybreak.gateway.hold.keys import NOBODY, ApiKey
from daybreak.gateway.hold.table import Gate
from daybreak.gateway.router.external import External
from daybreak.gateway.router.shares import Compared, Match, Share, Way

_NOTHING = "$^"
"""Pattern that matches only an empty value, which does not count as a header."""


def digests(keys: Sequence[ApiKey], model: str, now: float) -> tuple[str, ...]:
    """Return digests of the keys that may use a model.

    If none of several keys may, the model is closed, not open.
    """
    may = tuple(key.digest for key in keys if key.may_ask(model, now))
    return may or (NOBODY,) * bool(keys)


def desired_shares(
    routes: Iterable[Mapping[str, Any]],
    services: Sequence[DesiredService],
    now: float = 0,
    externals: Mapping[str, External] | None = None,
) -> list[Share]:
    """Return the routes that have names, oldest first.

    Args:
        routes: LLMRoutes of the namespace.
        services: Services that requests reach.
        now: Keys that have expired by then, in seconds since 1970, are ignored.
        externals: Available models outside the cluster, by the names of their routes.
    """
    by_name = {service.name: service for service in services}
    taken = {model for service in services for model in service.models}
    found = []
    for route in sorted(routes, key=_seniority):
        status = at(route, "status")
        message = status.get("names")
        names = tuple(
            name
            for name in map(text, message if isinstance(message, list) else ())
            if name and name not in taken
        )
        taken |= set(names)
        if names:
            name = _seniority(route)[1]
            share = _share(name, names, status, by_name, now)
            outside = (externals or {}).get(name)
            found.append(
                share if outside is None else replace(share, fallback=(*share.fallback, _way(outside)))
            )
    return found


def _way(outside: External) -> Way:
    """Return the destination for a model outside the cluster, which has no port in the HAProxy that holds."""
    return Way(f"{COUNTED}{outside.host}", outside.model, 0, outside.after_ms)


def _seniority(route: Mapping[str, Any]) -> tuple[str, str]:
    metadata = mapping(route.get("metadata"))
    return text(metadata.get("creationTimestamp")), text(metadata.get("name"))


def _share(
    route: str,
    names: tuple[str, ...],
    status: Mapping[str, Any],
    services: Mapping[str, DesiredService],
    now: float,
) -> Share:
    skips = status.get("sleepingBackends") == Asleep.SKIP
    ways = _ways(status.get("backends"), services)
    fallback = _ways(status.get("fallback"), services, _held_ms)
    matches = (_match(each, services, skips) for each in mappings(status.get("matches")))
    keys = [digests(services[way.service].front.slot.keys, way.model, now) for way in (ways or fallback)]
    return Share(
        route,
        names,
        _chosen(ways, services, skips),
        sticky=text(status.get("sessionAffinityHeader")),
        keys=_common(keys),
        since=text(at(status, "counts").get("startTime")),
        fallback=tuple(fallback),
        matches=tuple(matches),
        mirror=_mirror(status.get("mirror"), services),
        holders=_holders(status, services) if status.get("sessionAffinityKey") is True else (),
        port=whole(status.get("port")),
    )


def _holders(
    status: Mapping[str, Any], services: Mapping[str, DesiredService]
) -> tuple[tuple[str, str], ...]:
    """Return the keys of all services of a route, with their names.

    Of two names of one key the first is used.
    """
    owners = map(_owner, mappings(status.get("backends")))
    found: dict[str, str] = {}
    for service in (services[owner] for owner in owners if owner in services):
        for key in service.front.slot.keys:
            if key.digest != NOBODY:
                found.setdefault(key.digest, key.name)
    return tuple(sorted(found.items()))


def _mirror(found: Any, services: Mapping[str, DesiredService]) -> Way | None:
    """Return the destination of copies, or None if the model sleeps and copies must not wake it."""
    copies = mapping(found)
    ways = _ways([copies] if copies else [], services, lambda each: whole(each.get("percent")))
    wakes = copies.get("sleepingBackend") == Asleep.WAKE
    open_ = [way for way in ways if wakes or _gate(services[way.service], way.model) is Gate.OPEN]
    return next((way for way in open_ if way.weight > 0), None)


def _ways(
    backends: Any,
    services: Mapping[str, DesiredService],
    weigh: Callable[[Mapping[str, Any]], int] | None = None,
) -> list[Way]:
    """Return the existing backends; those without a weight only if a weight function is given."""
    found = []
    for backend in mappings(backends):
        service, model = services.get(_owner(backend)), text(backend.get("model"))
        weight = weigh(backend) if weigh else whole(backend.get("weight"))
        if service is not None and model in service.models and (weigh or weight > 0):
            found.append(Way(service.name, model, service.port, weight))
    return found


def _owner(backend: Mapping[str, Any]) -> str:
    """Return the owner label of the object that serves a model, or None if routes do not support its kind."""
    kind, name = text(backend.get("kind")) or BackendKind.LLM_SERVICE, text(backend.get("service"))
    owner = of_owner(kind, name)
    return owner if kind in set(BackendKind) and kind_and_name(owner) == (kind, name) else ""


def _chosen(ways: Sequence[Way], services: Mapping[str, DesiredService], skips: bool) -> tuple[Way, ...]:
    awake = [way for way in ways if _gate(services[way.service], way.model) is Gate.OPEN]
    # If all backends sleep, one must be woken.
    return tuple(awake or ways if skips else ways)


def _match(match: Mapping[str, Any], services: Mapping[str, DesiredService], skips: bool) -> Match:
    ways = _ways(match.get("backends"), services)
    names, found = _texts(match.get("apiKeys")), set()
    for service in {way.service for way in ways}:
        keys = services[service].front.slot.keys
        found |= {key.digest for key in keys if key.name in names}
    return Match(
        _chosen(ways, services, skips),
        headers=tuple(map(_header, mappings(match.get("headers")))),
        # An unknown key must match no client: no key at all would match every client.
        keys=tuple(sorted(found)) or (NOBODY,) * bool(names),
        paths=_texts(match.get("paths")),
        users=_texts(match.get("users")),
    )


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(text(each) for each in found if text(each)) if isinstance(found, list) else ()


def _header(header: Mapping[str, Any]) -> tuple[str, Compared, str]:
    name = text(header.get("name")).lower()
    if exact := text(header.get("exact")):
        return name, Compared.EXACT, exact
    if prefix := text(header.get("prefix")):
        return name, Compared.PREFIX, prefix
    try:
        return name, Compared.PATTERN, lua_pattern(text(header.get("regex")))
    except ValueError:
        return name, Compared.PATTERN, _NOTHING


def _held_ms(fallback: Mapping[str, Any]) -> int:
    """Return the milliseconds for which a request is held before this fallback; 0: until its hold ends."""
    return milliseconds(text(fallback.get("holdTimeout")))


def _gate(service: DesiredService, model: str) -> Gate:
    slots = (gate.slot for gate in service.gates if model in gate.slot.models)
    return next((slot.gate for slot in slots), Gate.CLOSED)


def _common(keys: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the keys that may use all of the models; models that are open to all require none."""
    needed = [set(each) for each in keys if each]
    if not needed:
        return ()
    return tuple(sorted(set.intersection(*needed))) or (NOBODY,)
