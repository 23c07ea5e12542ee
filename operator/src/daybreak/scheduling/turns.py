"""Whose turn it is, where more models want accelerators, or cores and memory, than there are.

Three rules, for each kind of accelerator (by the resource's name) apart, and for models without:

- **All or nothing.** Of the models that find no room, one comes first. The others give back what they hold,
  and make no pods until it has room, so that no two of them hold half of what each needs.
- **A model that is awake takes precedence over one that wakes.** One that has lost a pod keeps its gate
  open, holds what it has, and comes first, so that no model that wakes keeps half of what it needs. Of two of
  those, the second one closes its gate, gives back what it holds and wakes anew, where that makes room for
  the first.
- **An idle model gives way** (`yielding.py`). For the one that comes first the fewest models that may are put
  to sleep, and of those the ones that have had no request for longest, whatever they give back; only where
  that makes room on one node. What runs in the background, such as a batch, gives way before all others; what
  takes turns and is asked, after all others.

And one for all kinds together: a model for whose pods the scheduler would delete pods of others makes none
before those have left (`preempting.py`).

All follow from what is seen at this moment; the only memory is that a model has given its pods back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from statistics import median_low

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.scheduling.claim import LOOK_AGAIN, NO_MATTER, Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.pod_priority import priority
from daybreak.scheduling.preempting import Preempting
from daybreak.scheduling.replica_size import CORES
from daybreak.scheduling.yielding import choose_yielding, find_shortage

LEAST_MEASURED = 3
"""Waits for a kind of accelerator that must have been measured before one is told what to expect."""


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
        yielding = choose_yielding(first, stay, come, beside, fleet, now) if first.stuck(now) else ()
        if first.stuck(now):
            lacks, hopeless = find_shortage(first, (*same, *beside), fleet)
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
