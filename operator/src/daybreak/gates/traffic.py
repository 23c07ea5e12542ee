"""What all gateways say together of the requests to a workload."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from daybreak.protocol.reports import Report

SHORTEST_PAUSE = timedelta(minutes=1)
"""Pauses between requests that are shorter are told of by nobody: no model would have slept in them."""


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


def _of(heard: Heard | None, model: str, others: Collection[str]) -> list[Seen] | None:
    """What a gateway says of a model, its own gate first; None: nothing."""
    if heard is None or model not in heard:
        return None
    return [heard[model], *(seen for name, seen in heard.items() if name != model and name not in others)]
