"""What gateways tell of the requests to a workload: the report of one gate, and what all say together.

A gateway reports each gate under a name of its own: `SERVICE/MODEL` for the gate of a model, and `SERVICE`
for the requests of a service with several models whose model it could not read.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole
from daybreak.gates import tallies
from daybreak.gates.tallies import Tallies

_MOST_CLUSTERS = 32
"""RayClusters of a gate that a gateway may tell of: what goes on and what is on its way out."""
_LONGEST_NAME = 253
_LONGEST_IDLE_MS = 10 * 366 * 86_400_000
"""Ten years: what is longer is no time, and would be too large for one."""
_LONGEST_HOLD_MS = 24 * 60 * 60 * 1000
"""Who has been held for longer counts as held for a day."""
SHORTEST_PAUSE = timedelta(minutes=1)
"""Pauses between requests that are shorter are told of by nobody: no model would have slept in them."""


@dataclass(frozen=True, slots=True)
class Report:
    """One gate as one gateway sees it, at one moment."""

    epoch: int
    """The gate's epoch that this gateway has carried out."""
    gate: str
    """Its state there: `open`, `closed` or `failed`."""
    arrivals: int
    """Requests that arrived since this gateway started."""
    held: int
    in_flight: int
    """Requests that have passed the gate and have not ended, streams included."""
    idle_ms: int
    """Milliseconds since the last arrival or end; never more than the truth."""
    servers_up: int
    """Servers that answer."""
    clusters: tuple[str, ...] | None = None
    """The RayClusters that its requests go to, or are still at; None: that is not known."""
    held_ms: int | None = None
    """Milliseconds for which the oldest that is held has waited; None: none is, or it is not told."""

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
        return {
            "epoch": self.epoch,
            "gate": self.gate,
            "arrivals": self.arrivals,
            "held": self.held,
            "in_flight": self.in_flight,
            "idle_ms": self.idle_ms,
            "servers_up": self.servers_up,
            "clusters": None if self.clusters is None else list(self.clusters),
            "held_ms": self.held_ms,
        }

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back; what is missing or of another shape reads as nothing."""
        row = mapping(found)
        return cls(
            epoch=whole(row.get("epoch")),
            gate=text(row.get("gate")),
            arrivals=whole(row.get("arrivals")),
            held=whole(row.get("held")),
            in_flight=whole(row.get("in_flight")),
            idle_ms=min(whole(row.get("idle_ms")), _LONGEST_IDLE_MS),
            servers_up=whole(row.get("servers_up")),
            clusters=_clusters(row.get("clusters")),
            held_ms=_held_ms(row.get("held_ms")),
        )


@dataclass(frozen=True)
class Update:
    """One line of a gateway's stream of states: JSON, ended by a newline."""

    boot: str
    """Changes when the gateway's HAProxy was started anew, and its counts with it."""
    full: bool
    """Whether these are all gates; else those that have changed since the line before, maybe none."""
    services: Mapping[str, Report]
    """By the names of gates."""
    routes: Tallies | None = None
    """What backends of routes have got, of all routes; None: as it was told before."""
    short: bool = False
    """Whether the gateway is nearly full: its connections or its memory."""
    enforced: bool | None = None
    """False if the gateway reached a port that NetworkPolicies forbid it, or None if it does not know."""

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
        found: dict[str, Any] = {
            "boot": self.boot,
            "full": self.full,
            "services": {name: report.wire() for name, report in self.services.items()},
        }
        if self.routes is not None:
            found["routes"] = {name: tally.wire() for name, tally in self.routes.items()}
        if self.short:
            found["short"] = True
        if self.enforced is not None:
            found["enforced"] = self.enforced
        return found

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back."""
        row = mapping(found)
        return cls(
            boot=text(row.get("boot")),
            full=row.get("full") is True,
            services={name: Report.parse(item) for name, item in mapping(row.get("services")).items()},
            routes=tallies.parse(row["routes"]) if "routes" in row else None,
            short=row.get("short") is True,
            enforced=row["enforced"] if isinstance(row.get("enforced"), bool) else None,
        )


@dataclass(frozen=True)
class Pause:
    """A time without requests that has ended."""

    began: timedelta
    """How long ago it began: with the end of a request."""
    ended: timedelta
    """How long ago it ended: with an arrival."""

    @property
    def length(self) -> timedelta:
        """How long it lasted."""
        return self.began - self.ended


@dataclass(frozen=True)
class Seen:
    """A report, and how long ago it came."""

    report: Report
    age: timedelta
    unrouted: timedelta = timedelta(0)
    """How long it has told of no server that answers, as far as it was heard; zero while it has one."""
    pause: Pause | None = None
    """The last pause of a minute or longer whose beginning and end were heard of."""


@dataclass(frozen=True)
class Traffic:
    """What all gateways of the namespace say of the requests to a model together."""

    known: bool
    """Whether every gateway that may pass a request on has told of the model, and is still heard."""
    held: int = 0
    held_for: timedelta | None = None
    """For how long the oldest of those that are held has waited; None: none is, or no gateway tells."""
    in_flight: int = 0
    idle: timedelta = timedelta(0)
    """Time since the last arrival or end anywhere."""
    acknowledged: int = -1
    """The lowest epoch that any gateway has carried out."""
    routed: bool = False
    """Whether at least one gateway has a server for it that answers."""
    unrouted: timedelta = timedelta(0)
    """How long none of them has had one."""
    asked: timedelta | None = None
    """Time since the last arrival or end that a gateway has seen. Unlike `idle` it is not cut short by a
    gateway that has just come. None: none has seen a request since it came."""
    pause: Pause | None = None
    """The last time of a minute or longer in which none of them had a request, and which has ended."""


UNKNOWN = Traffic(known=False)
"""Nobody is heard."""

Heard = Mapping[str, Seen]
"""What one gateway says of a service: by model; under an empty name what is of no model."""


def named(name: str) -> tuple[str, str]:
    """The service and the model of a gate, from its name in a report; the model may be empty."""
    service, _, model = name.partition("/")
    return service, model


def together(gateways: Iterable[Heard | None], model: str, others: Collection[str] = ()) -> Traffic:
    """Sum up what gateways say of one model. None stands for a gateway that is not heard.

    What is of none of the `others`, the service's other models, may be for this one, and counts for it:
    requests whose model nobody could read, and those of a model that has gone.
    """
    rows = [_of(heard, model, others) for heard in gateways]
    found = [row for row in rows if row is not None]
    if not found:
        return UNKNOWN
    return Traffic(
        known=len(found) == len(rows),
        held=sum(each.report.held for row in found for each in row),
        held_for=max((age for row in found for each in row if (age := _held_for(each))), default=None),
        in_flight=sum(each.report.in_flight for row in found for each in row),
        idle=min(_idle(each) for row in found for each in row),
        acknowledged=min(row[0].report.epoch for row in found),
        routed=any(row[0].report.servers_up for row in found),
        unrouted=min(row[0].unrouted for row in found),
        asked=min((_idle(each) for row in found for each in row if _asked(each.report)), default=None),
        pause=_pause([each for row in found for each in row]) if len(found) == len(rows) else None,
    )


def clusters_in_use(gateways: Collection[Heard | None]) -> frozenset[str] | None:
    """The RayClusters that any gateway sends requests of a service to, or has requests at.

    None: that is not known, since a gateway is not heard, does not know the service yet, or does not say it.
    """
    found: set[str] = set()
    for heard in gateways:
        if not heard:
            return None
        for seen in heard.values():
            if seen.report.clusters is None:
                return None
            found.update(seen.report.clusters)
    return frozenset(found) if gateways else None


def _idle(seen: Seen) -> timedelta:
    return timedelta(milliseconds=seen.report.idle_ms) + seen.age


def _held_for(seen: Seen) -> timedelta | None:
    """For how long the oldest of those that are held at a gateway has waited."""
    if not seen.report.held or seen.report.held_ms is None:
        return None
    return timedelta(milliseconds=seen.report.held_ms) + seen.age


def _asked(report: Report) -> bool:
    return bool(report.arrivals or report.held or report.in_flight)


def _pause(rows: Iterable[Seen]) -> Pause | None:
    """The last pause of all of them together that has ended: where a pause of each meets those of the others.

    One that goes on ends in the future, which is before now by less than nothing.
    """
    goes_on = timedelta(seconds=-1)
    together = [Pause(timedelta.max, goes_on)]
    for row in rows:
        known = [row.pause] if row.pause is not None else []
        if not row.report.held and not row.report.in_flight:
            known.append(Pause(_idle(row), goes_on))
        both = [
            Pause(min(one.began, other.began), max(one.ended, other.ended))
            for one in together
            for other in known
        ]
        together = [each for each in both if each.length >= SHORTEST_PAUSE]
    ended = [each for each in together if each.ended > goes_on]
    return min(ended, key=lambda each: each.ended, default=None)


def _held_ms(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return min(value, _LONGEST_HOLD_MS) if known else None


def _clusters(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > _MOST_CLUSTERS:
        return None
    return tuple(each for each in value if isinstance(each, str) and len(each) <= _LONGEST_NAME)


def _of(heard: Heard | None, model: str, others: Collection[str]) -> list[Seen] | None:
    """What a gateway says of a model, its own gate first; None: nothing."""
    if heard is None or model not in heard:
        return None
    return [heard[model], *(seen for name, seen in heard.items() if name != model and name not in others)]
