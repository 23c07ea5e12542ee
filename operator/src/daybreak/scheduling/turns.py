"""Whose turn it is, where more models want accelerators than there are.

Two rules, for each kind of accelerator (by the resource's name) apart:

- **All or nothing.** Of the models that find no room, one comes first. The others give back what they hold,
  and make no pods until it has room, so that no two of them hold half of what each needs.
- **Who is idle gives way.** For the one that comes first the fewest models that may are put to sleep, and of
  those the ones that nobody has asked for longest, whatever they give back; only where that makes room on one
  node. What runs in the background, such as a batch, gives way before all others; what takes turns and is
  asked, after all others.

Both follow from what is seen at this moment; the only memory is that a model has given its pods back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median_low

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.scheduling.nodes import NodeCapacity

PATIENCE = timedelta(seconds=5)
"""How long the scheduler must have found no room for a pod: pods that end free theirs within seconds."""
LOOK_AGAIN = timedelta(seconds=2)
"""How soon to look again while somebody waits: idleness grows by itself."""
LEAST_MEASURED = 3
"""Waits for a kind of accelerator that must have been measured before one is told what to expect."""


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
    held_since: datetime | None = None
    """Since when the oldest of these has been held; None: that is not told."""
    forsaken: bool = False
    """Whether all have gone for whom it wakes: it is about to leave, and nobody gives way to it."""
    overdue: bool = False
    """Whether its first requests have been held for as long as they may be."""
    nodes: frozenset[str] | None = None
    """Nodes that would take one of its pods when they are empty; None: that is not known."""
    leaving: bool = False
    """Whether it gives back what it holds already, on its way to sleep."""
    priority: int = 0
    """Of those that wait, the one with the highest comes first."""
    background: bool = False
    """Whether nobody waits for it, as with a batch: it comes after all others, gives way before them, and
    nobody gives way to it."""
    yields_at: datetime | None = None
    """From when on it gives way if nobody asks for it, or it takes turns; None: it is asked now, or does not
    give way."""
    busy: bool = False
    """Whether it is asked at this moment, and gives way all the same."""
    begins: bool = False
    """Whether no Ray cluster of its workload is active yet: KubeRay calls one so when all is up that Serve is
    asked for, and until then none of its models is let through to."""
    first_since: datetime | None = None
    """Since when it has come first of those that wait; None: it does not, or that is not known yet."""
    room_seconds: tuple[int, ...] = ()
    """How long it has taken before, from when it came first until it had room."""
    stays_down: bool = False
    """Whether its turn is over: it is asked on its way to sleep, or in it, and is not to come back as long as
    another one waits."""

    @property
    def name(self) -> tuple[str, str]:
        """Which one it is, for certain."""
        return self.owner, self.model

    @property
    def short(self) -> bool:
        """Whether it wants room, and the scheduler has found none; maybe only for a moment."""
        return self.waits and (self.queued or self.no_room_since is not None)

    def stuck(self, now: datetime, node_wait: timedelta = timedelta(0)) -> bool:
        """Whether it wants room and finds none, though it has waited for nodes that may be added.

        Who came first before, and gave its pods back for that, has waited so long already.
        """
        return self.short and (self.queued or now >= self.patient_until(node_wait))

    @property
    def tries(self) -> bool:
        """Whether it makes its pods anew, as the one that comes first, and the scheduler has not found yet
        that they have no room: until then nobody behind it may make any."""
        return self.waits and not self.queued and self.first_since is not None

    def patient_until(self, node_wait: timedelta = timedelta(0)) -> datetime:
        """Until when it waits by itself."""
        since = self.since if self.no_room_since is None else self.no_room_since
        return since + PATIENCE + (node_wait if self.first_since is None else timedelta(0))


@dataclass(frozen=True)
class Turn:
    """What follows for one model."""

    after: tuple[str, ...] = ()
    """Workloads that come before it, the first `MAX_AFTER` of them; it makes no pods until they have room.
    Empty: it is its turn."""
    gives_way_to: str = ""
    """The workload for whose sake it is to sleep, if nobody asks it meanwhile; empty: none."""
    held_by: tuple[str, ...] = ()
    """Workloads that hold the accelerators it wants."""
    place: int = 0
    """Its place among those that wait, 1 for the one that comes first; 0: it does not wait."""
    expected: datetime | None = None
    """When it may expect room, by what such waits have taken; None: that is not known."""
    waited_for: int = 0
    """Accelerators that it holds, and that others wait for."""
    look_again: timedelta | None = field(default=None, compare=False)
    """How soon time alone may change somebody's turn; None: never."""

    @property
    def in_queue(self) -> bool:
        """Whether it waits for accelerators that others hold, or want before it."""
        return bool(self.after or (self.place and self.held_by))

    @property
    def acted_on(self) -> tuple[object, ...]:
        """What of it makes somebody do something; the rest is told to people, and counted."""
        return bool(self.after), self.gives_way_to, self.place == 1, self.in_queue


NO_MATTER = Turn()
"""Nobody waits for it, and it waits for nobody."""


def turns(
    claims: Collection[Claim],
    nodes: Collection[NodeCapacity],
    now: datetime,
    node_wait: timedelta = timedelta(0),
) -> dict[tuple[str, str], Turn]:
    """Turns of those models for which it matters, by workload and model.

    Args:
        claims: All models that hold or want accelerators.
        nodes: The nodes; none: they are not known.
        now: The time.
        node_wait: How long the scheduler must have found no room until anybody makes room, since nodes may be
            added meanwhile. Who comes while others wait that long already is in the queue at once: nodes
            would have come for those.
    """
    found: dict[tuple[str, str], Turn] = {}
    stuck: dict[str, list[Claim]] = {}
    pressed = {claim.resource for claim in claims if claim.stuck(now, node_wait)}
    for claim in claims:
        patience = timedelta(0) if claim.resource in pressed else node_wait
        if claim.stuck(now, patience) or (claim.tries and claim.resource in pressed):
            stuck.setdefault(claim.resource, []).append(claim)
        elif claim.waits and claim.no_room_since is not None:
            found[claim.name] = Turn(look_again=claim.patient_until(patience) - now)
    for resource, queue in stuck.items():
        same = [claim for claim in claims if claim.resource == resource]
        holding = [each for each in same if any(each.holds.values()) and not each.waits]
        holders = tuple(sorted({each.owner for each in holding}))
        starting = {each.owner for each in same if _starts(each)}
        blocked = [claim for claim in queue if claim.begins and claim.owner in starting]
        found |= {claim.name: Turn(after=(claim.owner,), held_by=holders) for claim in blocked}
        if len(blocked) == len(queue):
            continue
        first, *others = sorted((claim for claim in queue if claim not in blocked), key=_rank)
        expected = _expected(first, same, now)
        found[first.name] = Turn(held_by=holders, place=1, expected=expected(0))
        before: tuple[str, ...] = (first.owner,)
        for number, claim in enumerate(others, 1):
            room = None if claim.overdue or claim.background else expected(number)
            found[claim.name] = Turn(after=before, held_by=holders, place=number + 1, expected=room)
            if len(before) < MAX_AFTER and claim.owner not in before:
                before = (*before, claim.owner)
        if not (first.queued or first.background or first.forsaken):
            left = first.patient_until() - now
            found[first.name] = replace(found[first.name], look_again=max(left, LOOK_AGAIN))
            behind = {claim.name for claim in (*others, *blocked)}
            stay = [claim for claim in same if not claim.leaving and claim.name not in behind]
            come = Counter[str]()
            for claim in same:
                if claim.leaving or claim.name in behind:
                    come.update(claim.holds)
            over = [claim for claim in same if claim.stays_down]
            yielding = _yielding(first, stay, come, nodes, now) if first.stuck(now) else ()
            for claim in (*over, *yielding):
                found[claim.name] = Turn(gives_way_to=first.owner)
        for claim in holding:
            if waited_for := _waited_for(claim, queue):
                found[claim.name] = replace(found.get(claim.name, NO_MATTER), waited_for=waited_for)
    return found


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
    return min(sum(holder.holds.values()), wanted)


def _rank(claim: Claim) -> tuple[object, ...]:
    """Who has the highest priority comes first, then who has clients that wait, then whose oldest client has
    waited longest; where that is not told, since its wake began. Who has found no room for as long as its
    requests may be held lets the others try: what never fits is in nobody's way. Nor is who has no clients
    any more."""
    last = (claim.forsaken, claim.overdue, claim.background)
    return (last, -claim.priority, not claim.asked, claim.held_since or claim.since, claim.name)


def _yielding(
    first: Claim,
    claims: Iterable[Claim],
    coming: Mapping[str, int],
    nodes: Collection[NodeCapacity],
    now: datetime,
) -> list[Claim]:
    """The models whose sleep makes room for one more pod of `first` on one node: as few as possible, and of
    those the longest idle ones.

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
