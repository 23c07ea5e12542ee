"""Whose turn it is, where more models want accelerators than there are.

Two rules, for each kind of accelerator (by the resource's name) apart:

- **All or nothing.** Of the models that find no room, one comes first. The others give back what they hold,
  and make no pods until it has room, so that no two of them hold half of what each needs.
- **Who is idle gives way.** For the one that comes first the fewest models that may are put to sleep, and of
  those the ones that nobody has asked for longest; only where that makes room on one node.

Both follow from what is seen at this moment; the only memory is that a model has given its pods back.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from daybreak.scheduling.nodes import NodeCapacity

PATIENCE = timedelta(seconds=5)
"""How long the scheduler must have found no room for a pod: pods that end free theirs within seconds."""
LOOK_AGAIN = timedelta(seconds=2)
"""How soon to look again while somebody waits: idleness grows by itself."""


@dataclass(frozen=True)
class Claim:
    """A model that holds accelerators, or wants some."""

    owner: str
    """The workload, as `namespace/name`."""
    model: str
    resource: str
    """Name of the accelerator's resource."""
    since: datetime
    """When its wake began, or since when it has been awake."""
    devices: int = 0
    """Accelerators of one of its pods."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """Accelerators that its pods hold, by node."""
    waits: bool = False
    """Whether it is on the way up, and has not answered yet."""
    no_room_since: datetime | None = None
    """Since when the scheduler has found no room for one of its pods; None: it found room."""
    queued: bool = False
    """Whether it has given its pods back, and makes none until its turn comes."""
    asked: bool = False
    """Whether requests are held for it."""
    overdue: bool = False
    """Whether its first requests have been held for as long as they may be."""
    nodes: frozenset[str] | None = None
    """Nodes that would take one of its pods when they are empty; None: that is not known."""
    leaving: bool = False
    """Whether it gives back what it holds already, on its way to sleep."""
    yields_at: datetime | None = None
    """From when on it gives way if nobody asks for it; None: it is asked now, or does not give way."""

    @property
    def name(self) -> tuple[str, str]:
        """Which one it is, for certain."""
        return self.owner, self.model

    def stuck(self, now: datetime) -> bool:
        """Whether it wants room and finds none."""
        if not self.waits:
            return False
        return self.queued or (self.no_room_since is not None and now - self.no_room_since >= PATIENCE)


@dataclass(frozen=True)
class Turn:
    """What follows for one model."""

    after: tuple[str, ...] = ()
    """Workloads that come before it; it makes no pods until they have room. Empty: it is its turn."""
    gives_way_to: str = ""
    """The workload for whose sake it is to sleep, if nobody asks it meanwhile; empty: none."""
    look_again: timedelta | None = field(default=None, compare=False)
    """How soon time alone may change somebody's turn; None: never."""


NO_MATTER = Turn()
"""Nobody waits for it, and it waits for nobody."""


def turns(
    claims: Collection[Claim], nodes: Collection[NodeCapacity], now: datetime
) -> dict[tuple[str, str], Turn]:
    """Turns of those models for which it matters, by workload and model.

    Args:
        claims: All models that hold or want accelerators.
        nodes: The nodes; none: they are not known.
        now: The time.
    """
    found: dict[tuple[str, str], Turn] = {}
    for claim in claims:
        if claim.waits and claim.no_room_since is not None and not claim.stuck(now):
            found[claim.name] = Turn(look_again=claim.no_room_since + PATIENCE - now)
    for resource in {claim.resource for claim in claims if claim.stuck(now)}:
        same = [claim for claim in claims if claim.resource == resource]
        first, *others = sorted((claim for claim in same if claim.stuck(now)), key=_rank)
        before = [first.owner]
        for claim in others:
            found[claim.name] = Turn(after=tuple(dict.fromkeys(before)))
            before.append(claim.owner)
        if not first.queued:
            found[first.name] = Turn(look_again=LOOK_AGAIN)
            stay = [claim for claim in same if not claim.leaving and claim not in others]
            come = Counter[str]()
            for claim in same:
                if claim.leaving or claim in others:
                    come.update(claim.holds)
            for claim in _yielding(first, stay, come, nodes, now):
                found[claim.name] = Turn(gives_way_to=first.owner)
    return found


def _rank(claim: Claim) -> tuple[object, ...]:
    """Who has clients that wait comes first, then who waits longest. Who has found no room for as long as its
    requests may be held lets the others try: what never fits is in nobody's way."""
    return (claim.overdue, not claim.asked, claim.since, claim.name)


def _yielding(
    first: Claim,
    claims: Iterable[Claim],
    coming: Mapping[str, int],
    nodes: Collection[NodeCapacity],
    now: datetime,
) -> list[Claim]:
    """The fewest models whose sleep makes room for one more pod of `first` on one node.

    None where the accelerators that are on their way back (`coming`, by node) are enough.
    """
    held: Counter[str] = Counter()
    may: dict[str, list[Claim]] = {}
    for claim in claims:
        held.update(claim.holds)
        for node in claim.holds if claim.yields_at is not None and claim.yields_at <= now else ():
            may.setdefault(node, []).append(claim)
    offered = {node.name: int(node.offer(first.resource)) for node in nodes}
    best: list[Claim] = []
    for node in sorted({*may, *coming}):
        if first.nodes is not None and node not in first.nodes:
            continue
        # What other pods hold is not known: a node of which nothing is known has what comes back at least.
        room = max(offered.get(node, 0) - held[node], coming.get(node, 0))
        if coming.get(node) and room >= first.devices:
            return []
        chosen: list[Claim] = []
        for claim in sorted(may.get(node, ()), key=_idle_first):
            chosen.append(claim)
            room += claim.holds[node]
            if room >= first.devices:
                break
        if chosen and room >= first.devices and (not best or _cost(chosen) < _cost(best)):
            best = chosen
    return best


def _idle_first(claim: Claim) -> tuple[object, ...]:
    return (claim.yields_at, claim.name)


def _cost(claims: list[Claim]) -> tuple[object, ...]:
    """How many are put to sleep, what they give back in all, and how long the last one of them is idle."""
    last = max(claim.yields_at for claim in claims if claim.yields_at is not None)
    return (len(claims), sum(sum(claim.holds.values()) for claim in claims), last)
