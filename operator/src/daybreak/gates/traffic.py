"""Combined reports of all gateways on the requests to a workload."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from daybreak.protocol.reports import Report

SHORTEST_PAUSE = timedelta(minutes=1)
"""Minimum length of a reported pause between requests. No model would have slept in a shorter one."""


@dataclass(frozen=True)
class Pause:
    """A pause between requests that has ended."""

    began: timedelta
    """Time since the pause began, at the end of a request."""
    ended: timedelta
    """Time since the pause ended, at the arrival of a request."""

    @property
    def length(self) -> timedelta:
        """Length of the pause."""
        return self.began - self.ended


@dataclass(frozen=True)
class AgedReport:
    """A report and its age."""

    report: Report
    age: timedelta
    unrouted: timedelta = timedelta(0)
    """Known time for which the gateway has reported no server that answers. Zero while it has one."""
    pause: Pause | None = None
    """The last pause of a minute or longer whose start and end were both reported."""


@dataclass(frozen=True)
class Traffic:
    """Combined reports of all gateways of a namespace on the requests to a model."""

    known: bool
    """True if every gateway that may forward a request has reported the model, and still reports."""
    held: int = 0
    held_for: timedelta | None = None
    """Waiting time of the oldest held request, or None if none is held or no gateway reports it."""
    in_flight: int = 0
    idle: timedelta = timedelta(0)
    """Time since the last arrival or end at any gateway."""
    acknowledged: int = -1
    """Minimum epoch that the gateways have applied."""
    routed: bool = False
    """True if at least one gateway has a server of the model that answers."""
    unrouted: timedelta = timedelta(0)
    """Time for which no gateway has had one."""
    requested: timedelta | None = None
    """Time since the last arrival or end that a gateway has observed, or None if there was none.

    Unlike `idle`, a newly started gateway does not shorten it.
    """
    pause: Pause | None = None
    """The last ended pause of a minute or longer in which no gateway had a request."""


UNKNOWN = Traffic(known=False)
"""Traffic if no gateway reports."""

ModelReports = Mapping[str, AgedReport]
"""Reports of one gateway on a service, by model. The empty name is for requests that belong to no model."""


def named(name: str) -> tuple[str, str]:
    """Return the service and the model of a gate, from its name in a report. The model may be empty."""
    service, _, model = name.partition("/")
    return service, model


def together(gateways: Iterable[ModelReports | None], model: str, others: Collection[str] = ()) -> Traffic:
    """Return the combined traffic of one model. None represents a gateway that does not report.

    Requests of none of the `others`, the service's other models, may be for this model and count for it.
    These are requests whose model the gateways could not read, and those of a removed model.
    """
    rows = [_of(received, model, others) for received in gateways]
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
        requested=min(
            (_idle(each) for row in found for each in row if _has_requests(each.report)), default=None
        ),
        pause=_pause([each for row in found for each in row]) if len(found) == len(rows) else None,
    )


def clusters_in_use(gateways: Collection[ModelReports | None]) -> frozenset[str] | None:
    """Return the RayClusters that receive requests of a service from any gateway, or still have some.

    None means unknown: a gateway does not report, does not know the service yet, or omits its clusters.
    """
    found: set[str] = set()
    for received in gateways:
        if not received:
            return None
        for observed in received.values():
            if observed.report.clusters is None:
                return None
            found.update(observed.report.clusters)
    return frozenset(found) if gateways else None


def _idle(observed: AgedReport) -> timedelta:
    return timedelta(milliseconds=observed.report.idle_ms) + observed.age


def _held_for(observed: AgedReport) -> timedelta | None:
    """Return the waiting time of the oldest request that a gateway holds."""
    if not observed.report.held or observed.report.held_ms is None:
        return None
    return timedelta(milliseconds=observed.report.held_ms) + observed.age


def _has_requests(report: Report) -> bool:
    return bool(report.arrivals or report.held or report.in_flight)


def _pause(rows: Iterable[AgedReport]) -> Pause | None:
    """Return the last ended pause of all gateways together: the intersection of their pauses.

    A pause in progress has a negative end, because it ends in the future.
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


def _of(received: ModelReports | None, model: str, others: Collection[str]) -> list[AgedReport] | None:
    """Return the reports of a gateway on a model, its own gate first, or None if there are none."""
    if received is None or model not in received:
        return None
    return [
        received[model],
        *(observed for name, observed in received.items() if name != model and name not in others),
    ]
