"""Routes: names that lead to weighted models of several services, as sent to the router."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote


@dataclass(frozen=True)
class Way:
    """Model that a route leads to."""

    service: str
    model: str
    """Model name in requests to the service."""
    port: int
    """Port of the service in the HAProxy that holds."""
    weight: int
    """Share of the requests, relative to the others; above 0."""


class Compared(StrEnum):
    """Comparison of a header."""

    EXACT = "exact"
    PREFIX = "prefix"
    PATTERN = "pattern"
    """Match with a Lua pattern."""


@dataclass(frozen=True)
class Match:
    """Requests of a route with other destinations.

    All given conditions must hold; of keys, paths and users, one each.
    """

    ways: tuple[Way, ...]
    headers: tuple[tuple[str, Compared, str], ...] = ()
    """Name, comparison and value."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of API keys, in hexadecimal."""
    paths: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    """Values of the field `user` of the JSON body."""


@dataclass(frozen=True)
class Share:
    """Route with names that lead to several models."""

    route: str
    """Name of the LLMRoute."""
    names: tuple[str, ...]
    """Model names that clients send."""
    ways: tuple[Way, ...]
    """Destinations of requests; none: requests receive 503."""
    sticky: str = ""
    """Header for session affinity: requests with the same value have the same destination. Empty: none."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of the API keys that may use all of the models, in hexadecimal. Only clients with such
    a key see the names. With none all clients see them."""
    since: str = ""
    """Start time of the counts of the models; a changed value restarts them at 0."""
    fallback: tuple[Way, ...] = ()
    """Fallbacks for requests that no backend accepted, in this order. The weight of each is the number of
    milliseconds for which the previous one holds a request; 0: until its hold ends."""
    matches: tuple[Match, ...] = ()
    """Requests with other destinations; the first match applies."""
    mirror: Way | None = None
    """Destination of request copies; the weight is their percentage."""
    holders: tuple[tuple[str, str], ...] = ()
    """Digests of API keys, in hexadecimal, and their names: requests with keys of one name have the same
    destination. None: no affinity by key."""
    port: int = 0
    """Port of the route's dedicated address in the router, which serves only its names; 0: it has none."""


def words(shares: Collection[Share]) -> str:
    """Return all routes as one word of a command."""
    return ",".join(map(word, shares))


def word(share: Share) -> str:
    """Return a route as a part of a command."""
    parts = (
        _plain(share.route),
        _plain(share.sticky),
        "+".join(digest.lower() for digest in share.keys),
        "+".join(map(_plain, share.names)),
        _ways(share.ways),
        _plain(share.since),
        _ways(share.fallback),
        "+".join(_plain(_match(match)) for match in share.matches),
        _ways([share.mirror] if share.mirror else []),
        "+".join(f"{digest.lower()}/{_plain(name)}" for digest, name in share.holders),
        str(share.port or ""),
    )
    return ":".join(parts)


def _match(match: Match) -> str:
    parts = (
        "+".join("/".join(map(_plain, header)) for header in match.headers),
        "+".join(digest.lower() for digest in match.keys),
        "+".join(map(_plain, match.paths)),
        "+".join(map(_plain, match.users)),
        _ways(match.ways),
    )
    return ":".join(parts)


def _ways(ways: Collection[Way]) -> str:
    return "+".join(f"{_plain(way.service)}/{way.port}/{way.weight}/{_plain(way.model)}" for way in ways)


def _plain(text: str) -> str:
    return quote(text, safe="")
