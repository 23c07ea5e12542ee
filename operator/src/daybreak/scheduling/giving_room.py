"""Which models are to leave so that what a pod lacks comes free on a node, whatever it lacks."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations

from daybreak.scheduling.claim import Amounts, Claim

_TRIED = 24
"""Models on one node of which each pair is tried: of more, those that cost least."""
_NOTHING = Decimal(0)


def most_pods(room: Amounts, needs: Amounts) -> int:
    """How many pods with these needs have room."""
    counts = [int(max(room.get(name, _NOTHING), _NOTHING) // each) for name, each in needs.items() if each]
    return min(counts, default=1)


def fewest_that_give(
    claims: Iterable[Claim], node: str, lacking: Amounts, forced: Collection[tuple[str, str]] = ()
) -> list[Claim]:
    """Models that together give so much back on a node. Empty: nothing is lacking, or all of them are not
    enough.

    Nobody who is asked where the others are enough, nobody but batches where they are. Of those one or two
    that are enough, rather than more, the ones that are idle longest; of more as few as are needed.

    Args:
        claims: Those that may leave.
        node: The node.
        lacking: What has to come free.
        forced: Those of them that leave though they would not by themselves.
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
    """Models whose leaving gives one more pod room on one node. Empty: there are none, or what comes back is
    enough.

    Args:
        first: Whose pod it is.
        may: Those that may leave.
        coming: Those that give back what they hold already.
        free: What is free on each node. Of those that are not in it what comes back is waited for, and what
            others give has to be enough by itself.
        dear: What it costs that some leave, the least first.
    """
    best: list[Claim] = []
    for node in sorted({node for each in (*may, *coming) for node in each.gives} & (first.nodes or set())):
        lacking = _less(first.needs, free.get(node, {}))
        # Where nothing is lacking the scheduler must have another reason, and nobody's leaving helps.
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
    """What is still needed beside something."""
    missing = {name: amount - some.get(name, _NOTHING) for name, amount in needs.items()}
    return {name: amount for name, amount in missing.items() if amount > 0}


def cost(claim: Claim, forced: Collection[tuple[str, str]]) -> int:
    """What it costs that a model leaves: nobody waits for what runs in the background, nobody has come to an
    idle one; one that is asked is interrupted."""
    idle = claim.yields_at is not None and not claim.busy
    return 0 if claim.background else 1 if idle or claim.waits else 3 if claim.name in forced else 2


def _enough(claims: Sequence[Claim], node: str, lacking: Amounts) -> bool:
    """Whether they give so much back together."""
    return all(
        sum((claim.gives[node].get(name, _NOTHING) for claim in claims), _NOTHING) >= amount
        for name, amount in lacking.items()
    )
