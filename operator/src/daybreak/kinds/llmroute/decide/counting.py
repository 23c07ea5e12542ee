"""Counts of requests per backend of a route since its current shares, from the reports of all gateways.

Gateways count from the time in the status, so that successive operators read the same counts from them. The
status keeps the counts of terminated gateways with their names, so that they are added once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, mappings, parse_time, text, whole, written
from daybreak.api.llmroute.counts import MOST_GONE, EndedCounts, RouteCounts
from daybreak.api.llmroute.words import BackendKind
from daybreak.protocol.tallies import GatewayTally, Histogram, Tally


@dataclass(frozen=True)
class Counted:
    """Request counts of a route."""

    since: str
    """Start time of the counts."""
    totals: Mapping[str, Tally] = field(default_factory=dict)
    """Counts of each backend, by `SERVICE/MODEL`."""
    ended: Mapping[str, Tally] = field(default_factory=dict)
    """Part of the counts that is from terminated gateways."""
    gone: tuple[str, ...] = ()
    """Names of the terminated gateways."""


def counts_before(status: Manifest) -> RouteCounts | None:
    """Return the counts of a status, or None if it has no valid counts."""
    try:
        return RouteCounts.model_validate(status.get("counts"))
    except ValidationError:
        return None


def count(status: Manifest, backends: Collection[str], reported: Sequence[GatewayTally]) -> Counted | None:
    """Return the sum of all gateways' counts since the time in the status, or None without that time.

    Args:
        status: The previous status.
        backends: Backends of the route, as `SERVICE/MODEL`. Other counts are ignored.
        reported: Report of each gateway.
    """
    before = counts_before(status)
    if before is None:
        return None
    ended, gone = {_key(each): _tally(each) for each in before.ended}, before.terminated_gateways
    totals = dict(ended)
    for each in reported:
        if each.tally.since != before.start_time or each.gateway in before.terminated_gateways:
            continue
        mine = {name: tally for name, tally in each.tally.backends.items() if name in backends}
        _add(totals, mine)
        if each.gone and mine:
            _add(ended, mine)
            gone = [*gone, each.gateway]
    return Counted(before.start_time, totals, ended, tuple(gone[-MOST_GONE:]))


def anew(status: Manifest, now: datetime) -> Counted:
    """Return empty counts that start now, or one second after the previous start if that is later.

    No two counts of a route start at the same time.
    """
    before = counts_before(status)
    last = parse_time(before.start_time) if before is not None else None
    return Counted(written(now if last is None else max(now, last + timedelta(seconds=1))))


def weights_before(status: Manifest) -> dict[str, int]:
    """Return the weights of a status, by `SERVICE/MODEL`."""
    return {counted_as(each): whole(each.get("weight")) for each in mappings(status.get("backends"))}


def counted_as(row: Manifest) -> str:
    """Return the counter name of the model in a status row: `SERVICE/MODEL`."""
    return f"{names.of_owner(text(row.get('kind')), text(row.get('service')))}/{text(row.get('model'))}"


def together(tallies: Iterable[Tally]) -> Tally:
    """Return the combined counts of several backends."""
    return sum(tallies, start=Tally())


def _add(totals: dict[str, Tally], more: Mapping[str, Tally]) -> None:
    for name, tally in more.items():
        totals[name] = totals.get(name, Tally()) + tally


def _key(each: EndedCounts) -> str:
    return f"{names.of_owner(each.kind, each.service)}/{each.model}"


def _tally(each: EndedCounts) -> Tally:
    first, whole = Histogram.read(each.first_byte_buckets), Histogram.read(each.latency_buckets)
    return Tally(each.sent, each.answered, each.errors, first, whole, each.fallback_requests)


def counts(counted: Counted, now: datetime) -> RouteCounts:
    """Return the counts in the form of the status."""
    ended = []
    for name, tally in sorted(counted.ended.items()):
        owner, _, model = name.partition("/")
        # An external host is not an object: its counter name is stored in the same fields as that of a
        # service.
        kind, service = names.kind_and_name(owner)
        ended.append(
            EndedCounts(
                kind=BackendKind(kind),
                service=service,
                model=model,
                sent=tally.sent,
                answered=tally.answered,
                errors=tally.errors,
                fallback_requests=tally.passed_on,
                first_byte_buckets=tally.first.written(),
                latency_buckets=tally.whole.written(),
            )
        )
    return RouteCounts(
        start_time=counted.since,
        update_time=written(now),
        terminated_gateways=list(counted.gone),
        ended=ended,
    )
