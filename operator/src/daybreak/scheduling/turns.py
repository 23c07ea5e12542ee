"""Whose turn it is, where more models want accelerators, or cores and memory, than there are.

Three rules, for each kind of accelerator (by the resource's name) apart, and for models without:

- **All or nothing.** Of the models that find no room, one comes first. The others give back what they hold,
  and make no pods until it has room, so that no two of them hold half of what each needs.
- **A model that is awake takes precedence over one that wakes.** One that has lost a pod keeps its gate
  open, holds what it has, and comes first, so that no model that wakes keeps half of what it needs. Of two of
  those, the second one closes its gate, gives back what it holds and wakes anew, where that makes room for
  the first.
- **An idle model gives way.** For the one that comes first the fewest models that may are put to sleep, and
  of those the ones that have had no request for longest, whatever they give back; only where that makes room
  on one node. What runs in the background, such as a batch, gives way before all others; what takes turns and
  is asked, after all others.

And one for all kinds together: a model for whose pods the scheduler would delete pods of others makes none
before those have left (`preempting.py`).

All follow from what is seen at this moment; the only memory is that a model has given its pods back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from statistics import median_low

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.scheduling.claim import LOOK_AGAIN, NO_MATTER, Amounts, Claim, Turn
from daybreak.scheduling.giving_room import leaving_for
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.pod_priority import PriorityClasses, priority
from daybreak.scheduling.preempting import Preempting
from daybreak.scheduling.replica_size import CORES
from daybreak.scheduling.room import Booked

LEAST_MEASURED = 3
"""Waits for a kind of accelerator that must have been measured before one is told what to expect."""


@dataclass(frozen=True)
class Fleet:
    """The nodes, and what is on them."""

    nodes: Collection[NodeCapacity] = ()
    """Empty: they are not known."""
    classes: PriorityClasses = field(default_factory=dict)
    """Empty: they make no difference, or they are not known."""
    taken: Booked | None = None
    """What all pods hold of each node; None: that is not known, or not yet."""
    counted: frozenset[str] | None = frozenset()
    """Nodes of which pods of others are in that too; None: they are being asked for."""

    @cached_property
    def free(self) -> Mapping[str, Amounts] | None:
        """What is free on each node; None: that is not known, or not yet."""
        if self.taken is None:
            return None
        return {
            node.name: {
                resource: amount - self.taken.get(node.name, {}).get(resource, Decimal(0))
                for resource, amount in node.offers.items()
            }
            for node in self.nodes
        }

    @cached_property
    def sure(self) -> Mapping[str, Amounts]:
        """The same of those nodes alone of which all pods are known."""
        free, counted = self.free or {}, self.counted or ()
        return {node: free[node] for node in counted if node in free}


def turns(
    claims: Collection[Claim],
    fleet: Fleet,
    now: datetime,
    node_wait: timedelta = timedelta(0),
) -> dict[tuple[str, str], Turn]:
    """Turns of those models for which it matters, by workload and model.

    Args:
        claims: All models that hold or want accelerators, or cores.
        fleet: The nodes, and what is on them.
        now: The time.
        node_wait: How long the scheduler must have found no room until anybody makes room, since nodes may be
            added meanwhile. Who comes while others wait that long already is in the queue at once: nodes
            would have come for those.
    """
    preempting = _preempting(claims, fleet, now)
    found: dict[tuple[str, str], Turn] = {}
    claims = [_settled(claim) if claim.name in preempting else claim for claim in claims]
    stuck: dict[str, list[Claim]] = {}
    pressed = {claim.resource for claim in claims if claim.stuck(now, node_wait)}
    for claim in claims:
        patience = timedelta(0) if claim.resource in pressed else node_wait
        if claim.stuck(now, patience) or (claim.tries and claim.resource in pressed):
            stuck.setdefault(claim.resource, []).append(claim)
        elif claim.no_room_since is not None and (claim.waits or claim.lost):
            found[claim.name] = Turn(look_again=claim.patient_until(patience) - now)
    for resource, queue in stuck.items():
        found |= _queue(queue, [claim for claim in claims if claim.resource == resource], fleet, now)
    found |= preempting
    cores = {claim.name for claim in claims if claim.resource == CORES}
    return found | {name: replace(found[name], cores=True) for name in found.keys() & cores}


def _settled(claim: Claim) -> Claim:
    """One of which it is decided already what it does: it holds what it holds, and that is all."""
    return replace(
        claim, waits=False, lost=False, queued=False, no_room_since=None, first_since=None, yields_at=None,
        leaving=False, stays_down=False,
    )  # fmt: skip


def _preempting(claims: Collection[Claim], fleet: Fleet, now: datetime) -> dict[tuple[str, str], Turn]:
    """Turns of those whose pods would have the scheduler delete others', and of those others."""
    if not fleet.classes or not fleet.nodes:
        return {}
    return Preempting(
        claims,
        fleet.free,
        lambda claim: priority(fleet.classes, claim.priority_class),
        _rank,
        lambda claim: claim.yields_at is not None and claim.yields_at <= now,
    ).found


def _queue(
    queue: Sequence[Claim], same: Sequence[Claim], fleet: Fleet, now: datetime
) -> dict[tuple[str, str], Turn]:
    """Turns of those that find no room, and of all that hold or want the same (`same`)."""
    # One that has lost pods and that nobody asks wants none back where somebody else does.
    queue = [each for each in queue if not (each.lost and _gives_way(each, now))]
    holding = [each for each in same if any(each.holds.values()) and not each.waits]
    holders = _holders(holding, same)
    starting = {each.owner for each in same if _starts(each)}
    blocked = [claim for claim in queue if claim.begins and claim.owner in starting]
    found = {claim.name: Turn(after=(claim.owner,), held_by=holders) for claim in blocked}
    if len(blocked) == len(queue):
        return found
    first, *others = sorted((each for each in queue if each not in blocked), key=partial(_order, fleet))
    expected = _expected(first, same, now)
    found[first.name] = Turn(held_by=holders, place=1, expected=expected(0))
    before: tuple[str, ...] = (first.owner,)
    for number, claim in enumerate(others, 1):
        room = None if claim.overdue or claim.background else expected(number)
        after = () if claim.lost else before
        found[claim.name] = Turn(after=after, held_by=holders, place=number + 1, expected=room)
        if len(before) < MAX_AFTER and claim.owner not in before:
            before = (*before, claim.owner)
    if not (first.queued or first.background or first.forsaken):
        left = first.patient_until() - now
        found[first.name] = replace(found[first.name], look_again=max(left, LOOK_AGAIN))
        behind = {claim.name for claim in (*others, *blocked) if not claim.lost}
        lost = {claim.name: replace(claim, yields_at=now, busy=True) for claim in others if claim.lost}
        lost[first.name] = replace(first, yields_at=None)
        stay = [lost.get(each.name, each) for each in same if not each.leaving and each.name not in behind]
        come = [claim for claim in same if claim.leaving or claim.name in behind]
        over = [claim for claim in same if claim.stays_down]
        yielding = _yielding(first, stay, come, fleet, now) if first.stuck(now) else ()
        for claim in (*over, *yielding):
            found[claim.name] = Turn(gives_way_to=first.owner, preempted=claim.lost)
    for claim in holding:
        if waited_for := _waited_for(claim, queue):
            found[claim.name] = replace(found.get(claim.name, NO_MATTER), waited_for=waited_for)
    return found


def _holders(holding: Iterable[Claim], same: Iterable[Claim]) -> tuple[str, ...]:
    """Who holds what is waited for: of a workload with several models that take it, which of them."""
    models = Counter(each.owner for each in same)
    found = {f"{each.owner}/{each.model}" if models[each.owner] > 1 else each.owner for each in holding}
    return tuple(sorted(found))


def _gives_way(claim: Claim, now: datetime) -> bool:
    """Whether it may be put to sleep by itself, since nobody asks it."""
    return claim.yields_at is not None and claim.yields_at <= now and not claim.busy


def _starts(claim: Claim) -> bool:
    """Whether it has room, and is on the way up."""
    return claim.waits and any(claim.holds.values()) and not claim.queued and claim.no_room_since is None


def _expected(first: Claim, same: Collection[Claim], now: datetime) -> Callable[[int], datetime | None]:
    """When the one behind so many others may expect room: each has it as long after the one before as such a
    wait took in the median. Of the first one nothing is known any more once it has waited longer than any."""
    measured = sorted(seconds for claim in same for seconds in claim.room_seconds)
    known = len(measured) >= LEAST_MEASURED and first.first_since is not None
    if not known or first.overdue or first.background:
        return lambda _: None
    began, median = first.first_since or now, timedelta(seconds=median_low(measured))
    likely = (began + length for length in (median, timedelta(seconds=measured[-1])))
    soonest = next((moment for moment in likely if moment > now), None)
    return lambda number: soonest and soonest + number * median


def _waited_for(holder: Claim, queue: Iterable[Claim]) -> int:
    """Accelerators that a model holds and that others' pods wait for; a batch does not count: it can wait."""
    wanted = sum(claim.devices for claim in queue if claim.owner != holder.owner and not claim.background)
    return min(holder.held, wanted)


def _order(fleet: Fleet, claim: Claim) -> tuple[object, ...]:
    """As `_rank`; but whose pods the scheduler would put before others' by force comes before those."""
    of = priority(fleet.classes, claim.priority_class)
    rank = _rank(claim)
    return (rank[0], -of.value if of.preempts else 0, *rank[1:])


def _rank(claim: Claim) -> tuple[object, ...]:
    """Who is awake and has lost pods comes first, then who has the highest priority, then who has clients
    that wait, then whose oldest client has waited longest; where that is not told, since its wake began. Who
    has come first and found no room for as long as its requests may be held lets the others try for a while:
    what never fits is not in their way for long. Nor is who has no clients any more."""
    last = (claim.forsaken, claim.overdue, claim.background)
    since = claim.held_since or claim.since
    return (last, not claim.lost, -claim.priority, not claim.asked, since, claim.name)


def _yielding(
    first: Claim,
    claims: Collection[Claim],
    come: Collection[Claim],
    fleet: Fleet,
    now: datetime,
) -> list[Claim]:
    """The models whose sleep makes room for one more pod of `first` on one node: as few as possible, and of
    those the longest idle ones.

    None where what is on its way back (that of `come`) is enough.
    """
    if first.resource == CORES:
        some = [claim for claim in claims if claim.yields_at is not None and claim.yields_at <= now]
        # Whoever leaves must make room: nothing is guessed.
        return leaving_for(first, some, come, fleet.sure, _cost) if fleet.counted is not None else []
    coming = Counter[str]()
    for claim in come:
        coming.update(claim.holds)
    held: Counter[str] = Counter()
    may: dict[str, list[Claim]] = {}
    for claim in claims:
        held.update(claim.holds)
        for node in claim.holds if claim.yields_at is not None and claim.yields_at <= now else ():
            may.setdefault(node, []).append(claim)
    offered = {node.name: int(node.offer(first.resource)) for node in fleet.nodes}
    best: list[Claim] = []
    for node in sorted({*may, *coming}):
        if first.nodes is not None and node not in first.nodes:
            continue
        room = offered.get(node, 0) - held[node]
        if fleet.free is not None:
            room = int(fleet.free.get(node, {}).get(first.resource, 0)) + coming.get(node, 0)
        # A node of which nothing is known has what comes back at least.
        room = max(room, coming.get(node, 0))
        if coming.get(node) and room >= first.devices:
            return []
        chosen = _fewest(may.get(node, ()), node, first.devices - room)
        if chosen and (not best or _cost(chosen) < _cost(best)):
            best = chosen
    return best


def _fewest(claims: Iterable[Claim], node: str, lacking: int) -> list[Claim]:
    """Models that together give so much back on a node: as few as can be that somebody asks, then as few that
    somebody may ask, then as few in the background; of as many the longest idle ones. Empty: all of them are
    not enough."""
    kinds: list[list[Claim]] = [[], [], []]
    for claim in sorted(claims, key=lambda claim: (claim.yields_at, claim.name)):
        kinds[0 if claim.busy else 2 if claim.background else 1].append(claim)
    gives = [sorted((claim.holds[node] for claim in kind), reverse=True) for kind in kinds]
    counts = [len(kind) for kind in kinds]
    if _most(gives, counts) < lacking:
        return []
    for number in range(len(kinds)):
        while counts[number] and _most(gives, counts) - gives[number][counts[number] - 1] >= lacking:
            counts[number] -= 1
    found = []
    for number, kind in enumerate(kinds):
        for claim in kind:
            given = claim.holds[node]
            gives[number].remove(given)
            others = [count - (each == number) for each, count in enumerate(counts)]
            # Whoever is taken leaves so much to do that the largest of those behind it do it with as few.
            if counts[number] and given + _most(gives, others) >= lacking:
                found.append(claim)
                counts, lacking = others, lacking - given
    return found


def _most(gives: Sequence[Sequence[int]], counts: Sequence[int]) -> int:
    """What so many of each kind give back at most, the largest first."""
    return sum(sum(each[:count]) for each, count in zip(gives, counts, strict=True))


def _cost(claims: list[Claim]) -> tuple[object, ...]:
    """How many are put to sleep that somebody asks, that somebody may ask, and in all; how long the last one
    of them is idle; and what they give back, needed or not."""
    last = max(claim.yields_at for claim in claims if claim.yields_at is not None)
    held = sum(sum(claim.holds.values()) for claim in claims)
    interrupted = sum(claim.busy for claim in claims)
    return (interrupted, sum(not claim.background for claim in claims), len(claims), last, held)
