"""What the backends of a route have got since their shares are what they are, from what all gateways tell.

Gateways count from the time that the status says, so that one operator after another reads the same of them.
What a gateway had counted that has gone is kept in the status, with its name, so that it is added once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import ValidationError

from daybreak.api.common.unstructured import Manifest, mappings, parse_time, text, whole, written
from daybreak.api.llmroute.counts import MOST_GONE, EndedCounts, RouteCounts
from daybreak.gates.tallies import Histogram, Tally, Told

Weights = Mapping[tuple[str, str], int]
"""By service and model."""


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


def count(
    status: Manifest, weights: Weights, told: Sequence[Told], now: datetime, *, anew: bool = False
) -> Counted:
    """Add up what gateways have told.

    Args:
        status: The status before.
        weights: The shares of now. Where they are others than those of the status, it is counted anew.
        told: What each gateway has told.
        now: The time.
        anew: Whether to count anew in any case.
    """
    before = counts_before(status)
    if before is None or anew or weights != _weights(status):
        return Counted(_after(before, now))
    ended, gone = {_key(each): _tally(each) for each in before.ended}, before.gone
    totals, mine = dict(ended), {f"{service}/{model}" for service, model in weights}
    for each in told:
        if each.tally.since != before.since or each.gateway in before.gone:
            continue
        backends = {name: tally for name, tally in each.tally.backends.items() if name in mine}
        _add(totals, backends)
        if each.gone and backends:
            _add(ended, backends)
            gone = [*gone, each.gateway]
    return Counted(before.since, totals, ended, tuple(gone[-MOST_GONE:]))


def together(tallies: Iterable[Tally]) -> Tally:
    """What several backends have got."""
    return sum(tallies, start=Tally())


def _weights(status: Manifest) -> dict[tuple[str, str], int]:
    return {
        (text(each.get("service")), text(each.get("model"))): whole(each.get("weight"))
        for each in mappings(status.get("backends"))
    }


def _after(before: RouteCounts | None, now: datetime) -> str:
    """Now, or a little later: no two counts of a route begin at the same time."""
    last = parse_time(before.since) if before is not None else None
    return written(now if last is None else max(now, last + timedelta(seconds=1)))


def _add(totals: dict[str, Tally], more: Mapping[str, Tally]) -> None:
    for name, tally in more.items():
        totals[name] = totals.get(name, Tally()) + tally


def _key(each: EndedCounts) -> str:
    return f"{each.service}/{each.model}"


def _tally(each: EndedCounts) -> Tally:
    first, whole = Histogram.read(each.first_byte), Histogram.read(each.whole)
    return Tally(each.sent, each.answered, each.errors, first, whole)


def counts(counted: Counted, now: datetime) -> RouteCounts:
    """As the status has it."""
    ended = []
    for name, tally in sorted(counted.ended.items()):
        service, _, model = name.partition("/")
        ended.append(
            EndedCounts(
                service=service,
                model=model,
                sent=tally.sent,
                answered=tally.answered,
                errors=tally.errors,
                first_byte=tally.first.written(),
                whole=tally.whole.written(),
            )
        )
    return RouteCounts(since=counted.since, at=written(now), gone=list(counted.gone), ended=ended)
