"""Selection of the models that must leave so that a pod's missing resources become free on a node."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations

from daybreak.scheduling.claim import Amounts, Claim

_TRIED = 24
"""Maximum number of models on one node of which each pair is tried. Those with the lowest cost count."""
_NOTHING = Decimal(0)


def most_pods(room: Amounts, needs: Amounts) -> int:
    """Return the number of pods with these needs that fit."""
    counts = [int(max(room.get(name, _NOTHING), _NOTHING) // each) for name, each in needs.items() if each]
    return min(counts, default=1)


def fewest_that_give(
    claims: Iterable[Claim], node: str, lacking: Amounts, forced: Collection[tuple[str, str]] = ()
) -> list[Claim]:
    """Return models that together release the lacking amounts on a node.

    The result is empty if nothing is lacking, or if all of them are not enough. Models with requests are
    chosen only if the others are not enough, and models other than batches only if batches are not enough.
    One or two sufficient models are preferred, the longest idle ones first. If more are needed, they are as
    few as possible.

    Args:
        claims: Models that may leave.
        node: The node.
        lacking: Amounts that must become free.
        forced: Models of `claims` that must leave although they would not yield by themselves.
    """
    order = sorted(
        claims, key=lambda claim: (cost(claim, forced), claim.yields_at or claim.since, claim.name)
    )
    if not lacking or not _enough(order, node, lacking):
        return []
    levels = sorted({cost(claim, forced) for claim in order})
    least = next(
        level
        for level in levels
        if _enough([each for each in order if cost(each, forced) <= level], node, lacking)
    )
    order = [each for each in order if cost(each, forced) <= least]
    for count in (1, 2):
        for some in combinations(order[:_TRIED], count):
            if _enough(some, node, lacking):
                return list(some)
    chosen: list[Claim] = []
    for claim in order:
        if _enough(chosen, node, lacking):
            break
        chosen.append(claim)
    for claim in reversed(list(chosen)):
        others = [each for each in chosen if each is not claim]
        if _enough(others, node, lacking):
            chosen = others
    return chosen


def leaving_for(
    first: Claim,
    may: Collection[Claim],
    coming: Collection[Claim],
    free: Mapping[str, Amounts],
    dear: Callable[[list[Claim]], tuple[object, ...]],
) -> list[Claim]:
    """Return models whose leaving gives one more pod capacity on one node.

    The result is empty if there are none, or if the released amounts of `coming` are enough.

    Args:
        first: The model of the pod.
        may: Models that may leave.
        coming: Models that already release their resources.
        free: Free amounts on each node. For a node without an entry, the pod waits for amounts in release,
            and the models that leave must be enough on their own.
        dear: Cost of a set of models that leaves; the lowest is best.
    """
    best: list[Claim] = []
    for node in sorted({node for each in (*may, *coming) for node in each.gives} & (first.nodes or set())):
        lacking = _less(first.needs, free.get(node, {}))
        # If nothing is lacking, the scheduler has another reason, and no model's leaving helps.
        for each in coming:
            rest = _less(lacking, each.gives.get(node, {}))
            if (lacking and not rest) or (node in each.gives and node not in free):
                return []
            lacking = rest
        chosen = fewest_that_give([each for each in may if node in each.gives], node, lacking)
        if chosen and (not best or dear(chosen) < dear(best)):
            best = chosen
    return best


def _less(needs: Amounts, some: Amounts) -> dict[str, Decimal]:
    """Return the needs that remain after some amounts are subtracted."""
    missing = {name: amount - some.get(name, _NOTHING) for name, amount in needs.items()}
    return {name: amount for name, amount in missing.items() if amount > 0}


def cost(claim: Claim, forced: Collection[tuple[str, str]]) -> int:
    """Return the cost level of a model that leaves.

    Background work has no waiting clients, and an idle model has no requests. A busy model is interrupted.
    """
    idle = claim.yields_at is not None and not claim.busy
    return 0 if claim.background else 1 if idle or claim.waits else 3 if claim.name in forced else 2


def _enough(claims: Sequence[Claim], node: str, lacking: Amounts) -> bool:
    """Return True if the models together release the lacking amounts."""
    return all(
        sum((claim.gives[node].get(name, _NOTHING) for claim in claims), _NOTHING) >= amount
        for name, amount in lacking.items()
    )
