"""Names that lead to models of several services, each with its share, as the router is told them."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote


@dataclass(frozen=True)
class Way:
    """One of the models that a route leads to."""

    service: str
    model: str
    """What the request asks for when it comes there."""
    port: int
    """The port of the service in the HAProxy that holds."""
    weight: int
    """Its share, compared with the others; above 0."""


class Compared(StrEnum):
    """How a header is compared."""

    EXACT = "exact"
    PREFIX = "prefix"
    PATTERN = "pattern"
    """With a pattern of Lua's."""


@dataclass(frozen=True)
class Match:
    """Requests of a route that go other ways. All that is given must hold; of keys, paths and users, one."""

    ways: tuple[Way, ...]
    headers: tuple[tuple[str, Compared, str], ...] = ()
    """Name, how it is compared, and with what."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of API keys, in hexadecimal."""
    paths: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    """Of the field `user` of the JSON body."""


@dataclass(frozen=True)
class Share:
    """Names that lead to several models."""

    route: str
    """The LLMRoute."""
    names: tuple[str, ...]
    """What clients send as the model."""
    ways: tuple[Way, ...]
    """Where requests go; none: they are answered 503."""
    sticky: str = ""
    """A header: requests with the same value of it go the same way. Empty: none."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of the API keys that may ask for all of the models, in hexadecimal: the names are told
    to who has one. With none they are told to all."""
    since: str = ""
    """Since when it is counted what the models get: from 0 where it is another one than it was."""
    fallback: tuple[Way, ...] = ()
    """Where requests go that nobody has taken, in this order. The weight of each is for how many milliseconds
    a request is held by the one before; 0: until its hold ends."""
    matches: tuple[Match, ...] = ()
    """Requests that go other ways; the first one that holds."""
    mirror: Way | None = None
    """Where copies of requests go; its weight is how many in a hundred."""
    holders: tuple[tuple[str, str], ...] = ()
    """Digests of API keys, in hexadecimal, and their names: requests with keys of one name go the same way.
    None: keys are no reason."""
    port: int = 0
    """The router's port of its own address, where its names are served and no others; 0: it has none."""


def words(shares: Collection[Share]) -> str:
    """All routes, as one word of a command."""
    return ",".join(map(word, shares))


def word(share: Share) -> str:
    """A route as a part of a command."""
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
