"""What gateways tell of requests that routes have sent to backends: counts and times, to be added up.

Times are kept as histograms of fixed buckets, each a fifth wider than the one before: those of many gateways
add up, and a quantile is known to a fifth of itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole

FIRST_MS = 10
"""The first bucket has all that took no longer than that. `router/lua/tally.lua` says the same."""
PER_DOUBLING = 4
"""So many buckets double the time."""
LAST = 73
"""The last bucket has all that took longer than 44 minutes."""

_MOST_ROUTES = 2048
_MOST_BACKENDS = 64
_LONGEST_NAME = 512
_MOST = 2**50
"""What is counted beyond that is none: whatever a gateway says, it adds up and can be written."""


def bound_ms(bucket: int) -> float:
    """The longest time that a bucket has, in milliseconds; endless for the last one."""
    return FIRST_MS * 2 ** (bucket / PER_DOUBLING) if bucket < LAST else float("inf")


@dataclass(frozen=True)
class Histogram:
    """How long requests took."""

    counts: Mapping[int, int] = field(default_factory=dict)
    """By bucket."""

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    def above(self, bucket: int) -> int:
        """How many took longer than a bucket's longest time."""
        return sum(count for each, count in self.counts.items() if each > bucket)

    def quantile_ms(self, part: float) -> float | None:
        """A time that this part of them did not exceed, in milliseconds; None: there are none."""
        left = self.total * (1 - part)
        at = next((each for each in range(LAST + 1) if self.above(each) <= left), LAST)
        return bound_ms(at) if self.counts else None

    def __add__(self, other: Self) -> "Histogram":
        """Both together."""
        buckets = sorted(self.counts.keys() | other.counts.keys())
        return Histogram({each: self.counts.get(each, 0) + other.counts.get(each, 0) for each in buckets})

    def written(self) -> str:
        """In few characters: `17:3 18:250`."""
        return " ".join(f"{bucket}:{count}" for bucket, count in sorted(self.counts.items()))

    @classmethod
    def read(cls, found: str) -> Self:
        """Read one that was written; what has another form is passed over."""
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
    """What one backend of a route has got."""

    sent: int = 0
    """Requests that were sent to it."""
    answered: int = 0
    """Those of them that have ended with an answer, whatever it was and whoever gave it."""
    errors: int = 0
    """Those of them whose answer was a 5xx."""
    first: Histogram = field(default_factory=Histogram)
    """Times until an answer's first byte, of those that were answered 2xx and were not held."""
    whole: Histogram = field(default_factory=Histogram)
    """Times until an answer's end, of the same."""
    passed_on: int = 0
    """Requests that were sent to it, that it did not take, and that went to another backend."""

    def __add__(self, other: Self) -> "Tally":
        """Both together."""
        return Tally(
            self.sent + other.sent,
            self.answered + other.answered,
            self.errors + other.errors,
            self.first + other.first,
            self.whole + other.whole,
            self.passed_on + other.passed_on,
        )

    def wire(self) -> list[Any]:
        """In its JSON form, as the router's Lua writes it."""
        times = [_plain(self.first), _plain(self.whole)]
        return [self.sent, self.answered, self.errors, *times, self.passed_on]

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back; what is missing or of another shape reads as nothing."""
        if not isinstance(found, list) or len(found) not in (5, 6):
            return cls()
        sent, answered, errors = map(_count, found[:3])
        first, whole = (Histogram._of(mapping(each)) for each in found[3:5])
        # A gateway of an older version does not tell the last one.
        return cls(sent, answered, errors, first, whole, *map(_count, found[5:]))


@dataclass(frozen=True)
class RouteTally:
    """What the backends of a route have got."""

    since: str
    """Since when it is counted: the route's status said so. What was sent before is not in it."""
    backends: Mapping[str, Tally]
    """By `SERVICE/MODEL`."""

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
        return {"since": self.since, "ways": {name: tally.wire() for name, tally in self.backends.items()}}

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back."""
        row = mapping(found)
        ways = mapping(row.get("ways"))
        if len(ways) > _MOST_BACKENDS:
            raise ValueError(f"tells of more than {_MOST_BACKENDS} backends of a route")
        since = text(row.get("since"))[:_LONGEST_NAME]
        return cls(since, {name: Tally.parse(each) for name, each in ways.items()})


Tallies = Mapping[str, RouteTally]
"""What one gateway tells, by the names of routes."""


@dataclass(frozen=True)
class Told:
    """What one gateway has told of a route."""

    gateway: str
    """Which one, since it was started: another one after a restart."""
    gone: bool
    """Whether it has ended, so that nothing is added any more."""
    tally: RouteTally


def parse(found: Any) -> Tallies:
    """Read what a gateway tells. Raises ValueError when it is more than any gateway has."""
    rows = mapping(found)
    if len(rows) > _MOST_ROUTES or any(len(name) > _LONGEST_NAME for name in rows):
        raise ValueError("tells of more routes than there can be")
    return {name: RouteTally.parse(row) for name, row in rows.items()}


def added(tallies: Iterable[RouteTally]) -> RouteTally | None:
    """All together; of those that count from another time than the latest one, nothing. None: of none."""
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
