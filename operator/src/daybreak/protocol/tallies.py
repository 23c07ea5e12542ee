"""Tallies of requests that routes have sent to backends, from the gateways: counts and times to add up.

Times are kept as histograms of fixed buckets, each about a fifth wider than the previous one. Histograms of
several gateways can be added, and a quantile is accurate to about a fifth of its value.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole

FIRST_MS = 10
"""Upper bound of the first bucket, in milliseconds. `router/lua/tally.lua` has the same value."""
PER_DOUBLING = 4
"""Number of buckets in which the time doubles."""
LAST = 73
"""Index of the last bucket, for all times above 44 minutes."""

_MOST_ROUTES = 2048
_MOST_BACKENDS = 64
_LONGEST_NAME = 512
_MOST = 2**50
"""Maximum count. Higher values are capped, so that any reported value can be added and written."""


def bound_ms(bucket: int) -> float:
    """Return the upper bound of a bucket, in milliseconds; infinite for the last one."""
    return FIRST_MS * 2 ** (bucket / PER_DOUBLING) if bucket < LAST else float("inf")


@dataclass(frozen=True)
class Histogram:
    """Durations of requests."""

    counts: Mapping[int, int] = field(default_factory=dict)
    """Number of requests by bucket."""

    @property
    def total(self) -> int:
        """Total number of requests."""
        return sum(self.counts.values())

    def above(self, bucket: int) -> int:
        """Return the number of requests above the upper bound of a bucket."""
        return sum(count for each, count in self.counts.items() if each > bucket)

    def quantile_ms(self, part: float) -> float | None:
        """Return a time in milliseconds that this share of requests did not exceed, or None."""
        left = self.total * (1 - part)
        at = next((each for each in range(LAST + 1) if self.above(each) <= left), LAST)
        return bound_ms(at) if self.counts else None

    def __add__(self, other: Self) -> "Histogram":
        """Return the sum of both histograms."""
        buckets = sorted(self.counts.keys() | other.counts.keys())
        return Histogram({each: self.counts.get(each, 0) + other.counts.get(each, 0) for each in buckets})

    def written(self) -> str:
        """Return a compact text form: `17:3 18:250`."""
        return " ".join(f"{bucket}:{count}" for bucket, count in sorted(self.counts.items()))

    @classmethod
    def read(cls, found: str) -> Self:
        """Parse the text form. Invalid parts are skipped."""
        pairs = (word.partition(":") for word in found.split(" "))
        return cls._of({key: int(count) for key, _, count in pairs if count.isascii() and count.isdigit()})

    @classmethod
    def _of(cls, found: Mapping[Any, Any]) -> Self:
        counts = {}
        for key, count in found.items():
            if not isinstance(key, str) or not (key.isascii() and key.isdigit() and len(key) <= 2):
                continue
            if int(key) <= LAST and (number := _count(count)):
                counts[int(key)] = number
        return cls(dict(sorted(counts.items())))


@dataclass(frozen=True)
class Tally:
    """Counters of one backend of a route."""

    sent: int = 0
    """Requests that were sent to the backend."""
    answered: int = 0
    """Requests of `sent` that have ended with a response, whatever its status and sender."""
    errors: int = 0
    """Requests of `sent` that ended with a 5xx response."""
    first: Histogram = field(default_factory=Histogram)
    """Times to the first byte of responses with 2xx to requests that were not held."""
    whole: Histogram = field(default_factory=Histogram)
    """Times to the end of the same responses."""
    passed_on: int = 0
    """Requests that were sent to the backend, that it did not accept, and that another backend received."""

    def __add__(self, other: Self) -> "Tally":
        """Return the sum of both tallies."""
        return Tally(
            self.sent + other.sent,
            self.answered + other.answered,
            self.errors + other.errors,
            self.first + other.first,
            self.whole + other.whole,
            self.passed_on + other.passed_on,
        )

    def wire(self) -> list[Any]:
        """Return the JSON form, as the router's Lua writes it."""
        times = [_plain(self.first), _plain(self.whole)]
        return [self.sent, self.answered, self.errors, *times, self.passed_on]

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Parse the JSON form. Missing and invalid values become zero or empty."""
        if not isinstance(found, list) or len(found) not in (5, 6):
            return cls()
        sent, answered, errors = map(_count, found[:3])
        first, whole = (Histogram._of(mapping(each)) for each in found[3:5])
        # Gateways of an older version omit the last value.
        return cls(sent, answered, errors, first, whole, *map(_count, found[5:]))


@dataclass(frozen=True)
class RouteTally:
    """Counters of all backends of a route."""

    since: str
    """Start of the count, from the route's status. Earlier requests are not included."""
    backends: Mapping[str, Tally]
    """Tallies by `SERVICE/MODEL`."""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"since": self.since, "ways": {name: tally.wire() for name, tally in self.backends.items()}}

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Parse the JSON form."""
        row = mapping(found)
        ways = mapping(row.get("ways"))
        if len(ways) > _MOST_BACKENDS:
            raise ValueError(f"reports more than {_MOST_BACKENDS} backends of a route")
        since = text(row.get("since"))[:_LONGEST_NAME]
        return cls(since, {name: Tally.parse(each) for name, each in ways.items()})


Tallies = Mapping[str, RouteTally]
"""Tallies of one gateway, by the names of routes."""


@dataclass(frozen=True)
class GatewayTally:
    """Tally of one gateway for a route."""

    gateway: str
    """Identifier of the gateway process. It changes with a restart."""
    gone: bool
    """True if the gateway has ended, so that nothing is added."""
    tally: RouteTally


def parse(found: Any) -> Tallies:
    """Parse the tallies of a gateway.

    Raises:
        ValueError: The gateway reports more than any gateway can have.
    """
    rows = mapping(found)
    if len(rows) > _MOST_ROUTES or any(len(name) > _LONGEST_NAME for name in rows):
        raise ValueError("reports more routes or longer names than allowed")
    return {name: RouteTally.parse(row) for name, row in rows.items()}


def added(tallies: Iterable[RouteTally]) -> RouteTally | None:
    """Return the sum of all tallies with the latest start, or None without tallies.

    Tallies with another start are ignored.
    """
    every = list(tallies)
    if not every:
        return None
    since = max(each.since for each in every)
    found: dict[str, Tally] = {}
    for each in every:
        if each.since == since:
            for name, tally in each.backends.items():
                found[name] = found.get(name, Tally()) + tally
    return RouteTally(since, found)


def _plain(times: Histogram) -> dict[str, int]:
    return {str(bucket): count for bucket, count in times.counts.items()}


def _count(value: Any) -> int:
    return min(max(whole(value), 0), _MOST)
