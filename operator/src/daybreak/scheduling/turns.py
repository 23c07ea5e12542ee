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
from daybreak.scheduling.giving_room import fewest_that_give, leaving_for
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.pod_priority import PriorityClasses, priority
from daybreak.scheduling.preempting import Preempting
from daybreak.scheduling.replica_size import CORES, DEVICE_CLAIMS
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
        # A model that yields for one queue releases its pods for the next queue, too.
        known = [replace(each, leaving=True) if _yields(found.get(each.name)) else each for each in claims]
        same = [claim for claim in known if claim.resource == resource]
        others = [claim for claim in known if claim.resource != resource]
        queue = [claim for claim in same if claim.name in {each.name for each in queue}]
        for name, turn in _queue(queue, same, others, fleet, now).items():
            before = found.get(name)
            keeps = before is not None and _yields(before) and not _yields(turn)
            found[name] = replace(turn, gives_way_to=before.gives_way_to) if before and keeps else turn
    found |= preempting
    cores = {claim.name for claim in claims if claim.resource == CORES}
    return found | {name: replace(found[name], cores=True) for name in found.keys() & cores}


def _yields(turn: Turn | None) -> bool:
    return turn is not None and bool(turn.gives_way_to)


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
    queue: Sequence[Claim], same: Sequence[Claim], beside: Sequence[Claim], fleet: Fleet, now: datetime
) -> dict[tuple[str, str], Turn]:
    """Turns of those that find no room, of all that hold or want the same (`same`), and of those beside them
    that yield cores and memory (`beside`)."""
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
        yielding = _yielding(first, stay, come, beside, fleet, now) if first.stuck(now) else ()
        if first.stuck(now):
            lacks, hopeless = _shortage(first, (*same, *beside), fleet)
            found[first.name] = replace(found[first.name], lacks=lacks, hopeless=hopeless)
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
    others: Collection[Claim],
    fleet: Fleet,
    now: datetime,
) -> list[Claim]:
    """Return the models whose sleep makes room for one more pod of `first` on one node: as few as possible,
    and of those the longest idle ones. Empty if what comes back (that of `come`) is enough, or if no yield
    helps.

    Args:
        first: The model that is first in the queue.
        claims: Models that hold or want the same resource, without those of `come`.
        come: Models that release their pods already.
        others: Models of other resources: they may hold cores and memory that `first` lacks.
        fleet: The nodes, and what is on them.
        now: The time.
    """
    if fleet.counted is None:
        # The count arrives within moments, and may show that no yield helps.
        return []
    may = [claim for claim in claims if claim.yields_at is not None and claim.yields_at <= now]
    beside = [claim for claim in others if claim.yields_at is not None and claim.yields_at <= now]
    beside = [claim for claim in beside if not (claim.leaving or claim.lost)]
    come = [*come, *(claim for claim in others if claim.leaving)]
    if first.resource == CORES:
        # Without a count of other pods, nothing is guessed: a yield must make room. Models with accelerators
        # release more than is needed, so they yield only if the others are not enough.
        found = leaving_for(first, may, come, fleet.sure, _cost)
        return found or leaving_for(first, [*may, *beside], come, fleet.sure, _cost)
    held: Counter[str] = Counter()
    for claim in claims:
        held.update(claim.holds)
    offers = {node.name: int(node.offer(first.resource)) for node in fleet.nodes}
    may_on, beside_on, come_on = _by_node(may), _by_node(beside), _by_node(come)
    best: list[Claim] = []
    for node in sorted({*may_on, *beside_on, *come_on}):
        if first.nodes is not None and node not in first.nodes:
            continue
        comes = come_on.get(node, ())
        coming = sum(claim.holds.get(node, 0) for claim in comes if claim.resource == first.resource)
        lacks = _lacks_beside(first, node, comes, fleet)
        unclaimed = offers.get(node, 0) - held[node] - coming
        free = _free_devices(first, node, unclaimed, fleet, certain=bool(lacks))
        # An accelerator of which no node tells comes free at least as it comes back.
        lacking = first.devices - max(free + coming, coming)
        if lacking <= 0 and not lacks:
            if comes:
                return []
            continue
        here = [claim for claim in may_on.get(node, ()) if claim.holds.get(node)]
        chosen = (
            _with_beside(first, [*here, *beside_on.get(node, ())], node, lacking, lacks)
            if lacks
            else _fewest(here, node, lacking)
        )
        if chosen and (not best or _cost(chosen) < _cost(best)):
            best = chosen
    return best


def _by_node(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """Return the claims that hold something on each node."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        for node in {*claim.holds, *claim.gives}:
            if claim.holds.get(node) or claim.gives.get(node):
                found.setdefault(node, []).append(claim)
    return found


def _free_devices(first: Claim, node: str, unclaimed: int, fleet: Fleet, *, certain: bool) -> int:
    """Return the number of free accelerators of a node; `unclaimed` if the pods on it are not known.

    The scheduler has found no room. If other pods of the node are not counted and nothing else is known to
    be short, they hold so many that too few are free.
    """
    free = int(fleet.free.get(node, {}).get(first.resource, 0)) if fleet.free is not None else unclaimed
    if certain or node in (fleet.counted or ()):
        return free
    return min(free, first.devices - 1)


def _lacks_beside(first: Claim, node: str, come: Collection[Claim], fleet: Fleet) -> dict[str, Decimal]:
    """Return what a pod of `first` lacks on a node besides accelerators, such as cores and memory. Empty if
    what pods hold is not known."""
    if fleet.free is None:
        return {}
    free = _sum([fleet.free.get(node, {}), *(claim.gives.get(node, {}) for claim in come)])
    return _less({name: amount for name, amount in first.needs.items() if name != first.resource}, free)


def _shortage(first: Claim, claims: Collection[Claim], fleet: Fleet) -> tuple[tuple[str, ...], bool]:
    """Return the resources besides accelerators that are short wherever enough accelerators are free, and
    whether no node takes a pod of `first` even if all of the models sleep.

    Both are known only if the pods of all of these nodes are counted.
    """
    nodes = [node for node in fleet.sure if first.nodes is None or node in first.nodes]
    if not nodes or first.resource == DEVICE_CLAIMS or len(nodes) < len(first.nodes or fleet.nodes):
        return (), False
    needs = {**first.needs, **({first.resource: Decimal(first.devices)} if first.devices else {})}
    short = [_less(needs, fleet.sure[node]) for node in nodes]
    beside = [set(each) - {first.resource} for each in short if first.resource not in each]
    released = [
        _less(
            needs,
            _sum([fleet.sure[node], *(claim.gives[node] for claim in claims if node in claim.gives)]),
        )
        for node in nodes
    ]
    lacks = set[str]().union(*beside) if first.resource != CORES and all(beside) else set()
    return tuple(sorted(lacks)), all(released)


def _sum(some: Iterable[Amounts]) -> Amounts:
    found: dict[str, Decimal] = {}
    for amounts in some:
        for name, amount in amounts.items():
            found[name] = found.get(name, Decimal(0)) + amount
    return found


def _less(needs: Amounts, free: Amounts) -> dict[str, Decimal]:
    missing = {name: amount - free.get(name, Decimal(0)) for name, amount in needs.items()}
    return {name: amount for name, amount in missing.items() if amount > 0}


def _with_beside(
    first: Claim, claims: Iterable[Claim], node: str, lacking: int, lacks: Mapping[str, Decimal]
) -> list[Claim]:
    """Return the models that together release the accelerators and the other resources that a pod lacks."""
    every = {claim.name: claim for claim in claims if claim.gives.get(node) or claim.holds.get(node)}
    without = [claim for claim in every.values() if claim.resource == CORES and claim.gives.get(node)]
    if lacking <= 0 and (found := fewest_that_give(without, node, lacks)):
        return found
    # Accelerators that come by claims are in no pod's requests.
    giving = [
        replace(claim, gives={node: {**claim.gives.get(node, {}), first.resource: Decimal(own)}})
        for claim in every.values()
        for own in [claim.holds.get(node, 0) if claim.resource == first.resource else 0]
    ]
    wanted = dict(lacks) | ({first.resource: Decimal(lacking)} if lacking > 0 else {})
    return [every[claim.name] for claim in fewest_that_give(giving, node, wanted)]


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
