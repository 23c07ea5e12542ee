"""Selection of the models that yield to the first one in the accelerator queue."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from daybreak.scheduling.claim import Amounts, Claim
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.giving_room import fewest_that_give, leaving_for
from daybreak.scheduling.replica_size import CORES, DEVICE_CLAIMS


def choose_yielding(
    first: Claim,
    claims: Collection[Claim],
    come: Collection[Claim],
    others: Collection[Claim],
    fleet: Fleet,
    now: datetime,
) -> list[Claim]:
    """Return the models whose sleep frees capacity for one more pod of `first` on one node.

    They are as few as possible, and of those the longest idle ones. The result is empty if the amounts that
    `come` releases are enough, or if no yield helps.

    Args:
        first: The model that is first in the queue.
        claims: Models that hold or need the same resource, without those of `come`.
        come: Models that already release their pods.
        others: Models of other resources: they may hold CPUs and memory that `first` lacks.
        fleet: The nodes and their pods.
        now: The current time.
    """
    if fleet.counted is None:
        # The count arrives within moments, and may show that no yield helps.
        return []
    may = [claim for claim in claims if claim.yields_at is not None and claim.yields_at <= now]
    beside = [claim for claim in others if claim.yields_at is not None and claim.yields_at <= now]
    beside = [claim for claim in beside if not (claim.leaving or claim.lost)]
    come = [*come, *(claim for claim in others if claim.leaving)]
    if first.resource == CORES:
        # Without a count of other pods nothing is guessed: a yield must free enough capacity. Models with
        # accelerators release more than is needed, so they yield only if the others are not enough.
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
        lacking, lacks = _lacking_on(first, node, comes, offers.get(node, 0) - held[node], fleet)
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


def _lacking_on(
    first: Claim, node: str, come: Collection[Claim], unclaimed: int, fleet: Fleet
) -> tuple[int, dict[str, Decimal]]:
    """Return how many accelerators a pod of `first` lacks on a node, and its other missing resources there.

    Args:
        first: The model that is first in the queue.
        node: The node.
        come: Models that already release their pods on the node.
        unclaimed: Accelerators of the node that no other model holds.
        fleet: The nodes and their pods.
    """
    coming = sum(claim.holds.get(node, 0) for claim in come if claim.resource == first.resource)
    lacks = _lacks_beside(first, node, come, fleet)
    free = _free_devices(first, node, unclaimed - coming, fleet, certain=bool(lacks))
    # Accelerators that no node reports become free at least as models release them.
    return first.devices - max(free + coming, coming), lacks


def _by_node(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """Return the claims with resources on each node."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        for node in {*claim.holds, *claim.gives}:
            if claim.holds.get(node) or claim.gives.get(node):
                found.setdefault(node, []).append(claim)
    return found


def _free_devices(first: Claim, node: str, unclaimed: int, fleet: Fleet, *, certain: bool) -> int:
    """Return the number of free accelerators of a node; `unclaimed` if the pods on it are not known.

    The scheduler has found no capacity. Other pods of the node may be uncounted while no other resource is
    known to be short. Those pods then hold enough accelerators that too few are free.
    """
    free = int(fleet.free.get(node, {}).get(first.resource, 0)) if fleet.free is not None else unclaimed
    if certain or node in (fleet.counted or ()):
        return free
    return min(free, first.devices - 1)


def _lacks_beside(first: Claim, node: str, come: Collection[Claim], fleet: Fleet) -> dict[str, Decimal]:
    """Return the resources besides accelerators that a pod of `first` lacks on a node.

    Examples are CPUs and memory. The result is empty if the resources of pods are unknown.
    """
    if fleet.free is None:
        return {}
    free = _sum([fleet.free.get(node, {}), *(claim.gives.get(node, {}) for claim in come)])
    return _less({name: amount for name, amount in first.needs.items() if name != first.resource}, free)


def find_shortage(first: Claim, claims: Collection[Claim], fleet: Fleet) -> tuple[tuple[str, ...], bool]:
    """Return the resources that are short besides accelerators, and whether no yield helps.

    The resources are short wherever enough accelerators are free. No yield helps if no node accepts a pod of
    `first` even if all of the models sleep. Both results are known only if the pods of all of these nodes are
    counted.
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
    # Accelerators from ResourceClaims are in no pod's requests.
    giving = [
        replace(claim, gives={node: {**claim.gives.get(node, {}), first.resource: Decimal(own)}})
        for claim in every.values()
        for own in [claim.holds.get(node, 0) if claim.resource == first.resource else 0]
    ]
    desired = dict(lacks) | ({first.resource: Decimal(lacking)} if lacking > 0 else {})
    return [every[claim.name] for claim in fewest_that_give(giving, node, desired)]


def _fewest(claims: Iterable[Claim], node: str, lacking: int) -> list[Claim]:
    """Return models that together release enough accelerators on a node.

    As few busy models as possible are chosen, then as few idle ones, then as few in the background. Among
    sets of equal size, the longest idle ones are chosen. The result is empty if all of them are not enough.
    """
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
            # Each chosen model must leave a remainder that the largest of the following ones release with the
            # same count.
            if counts[number] and given + _most(gives, others) >= lacking:
                found.append(claim)
                counts, lacking = others, lacking - given
    return found


def _most(gives: Sequence[Sequence[int]], counts: Sequence[int]) -> int:
    """Return the maximum number of accelerators that these counts of each kind release, the largest first."""
    return sum(sum(each[:count]) for each, count in zip(gives, counts, strict=True))


def _cost(claims: list[Claim]) -> tuple[object, ...]:
    """Return the cost of a set of models that sleep.

    The parts of the cost, in order:

    - the number of busy models
    - the number of models that are not in the background
    - the number of all models
    - the idle time of the most recently used one
    - all accelerators that they release, needed or not
    """
    last = max(claim.yields_at for claim in claims if claim.yields_at is not None)
    held = sum(sum(claim.holds.values()) for claim in claims)
    interrupted = sum(claim.busy for claim in claims)
    return (interrupted, sum(not claim.background for claim in claims), len(claims), last, held)
