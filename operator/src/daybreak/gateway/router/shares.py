"""Names that lead to models of several services, each with its share, as the router is told them."""

from collections.abc import Collection
from dataclasses import dataclass
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
    )
    return ":".join(parts)


def _ways(ways: Collection[Way]) -> str:
    return "+".join(f"{_plain(way.service)}/{way.port}/{way.weight}/{_plain(way.model)}" for way in ways)


def _plain(text: str) -> str:
    return quote(text, safe="")
