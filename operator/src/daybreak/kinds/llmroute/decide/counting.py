"""What the backends of a route have got since their shares are what they are, from what all gateways tell.

Gateways count from the time that the status says, so that one operator after another reads the same of them.
What a gateway had counted that has gone is kept in the status, with its name, so that it is added once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, mappings, parse_time, text, whole, written
from daybreak.api.llmroute.counts import MOST_GONE, EndedCounts, RouteCounts
from daybreak.api.llmroute.words import BackendKind
from daybreak.protocol.tallies import Histogram, Tally, Told


@dataclass(frozen=True)
class Counted:
    """What is known of the requests of a route."""

    since: str
    """Since when they are counted."""
    totals: Mapping[str, Tally] = field(default_factory=dict)
    """What each backend has got, by `SERVICE/MODEL`."""
    ended: Mapping[str, Tally] = field(default_factory=dict)
    """What of that is of gateways that have gone."""
    gone: tuple[str, ...] = ()
    """Which ones these are."""


def counts_before(status: Manifest) -> RouteCounts | None:
    """The counts of a status; None: it has none that can be read."""
    try:
        return RouteCounts.model_validate(status.get("counts"))
    except ValidationError:
        return None


def count(status: Manifest, backends: Collection[str], told: Sequence[Told]) -> Counted | None:
    """Add up what gateways have told since the status says; None: it does not say since when.

    Args:
        status: The status before.
        backends: Those of the route, as `SERVICE/MODEL`. Nothing else counts.
        told: What each gateway has told.
    """
    before = counts_before(status)
    if before is None:
        return None
    ended, gone = {_key(each): _tally(each) for each in before.ended}, before.terminated_gateways
    totals = dict(ended)
    for each in told:
        if each.tally.since != before.start_time or each.gateway in before.terminated_gateways:
            continue
        mine = {name: tally for name, tally in each.tally.backends.items() if name in backends}
        _add(totals, mine)
        if each.gone and mine:
            _add(ended, mine)
            gone = [*gone, each.gateway]
    return Counted(before.start_time, totals, ended, tuple(gone[-MOST_GONE:]))


def anew(status: Manifest, now: datetime) -> Counted:
    """Nothing yet: it is counted from now, or a little later. No two counts of a route begin at one time."""
    before = counts_before(status)
    last = parse_time(before.start_time) if before is not None else None
    return Counted(written(now if last is None else max(now, last + timedelta(seconds=1))))


def weights_before(status: Manifest) -> dict[str, int]:
    """The weights of a status, by `SERVICE/MODEL`."""
    return {counted_as(each): whole(each.get("weight")) for each in mappings(status.get("backends"))}


def counted_as(row: Manifest) -> str:
    """What the model of a status's row is called where requests are counted: `SERVICE/MODEL`."""
    return f"{names.of_owner(text(row.get('kind')), text(row.get('service')))}/{text(row.get('model'))}"


def together(tallies: Iterable[Tally]) -> Tally:
    """What several backends have got."""
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
    """As the status has it."""
    ended = []
    for name, tally in sorted(counted.ended.items()):
        owner, _, model = name.partition("/")
        # An external host is no object: it is kept by what it is called here, as a service is.
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
