"""Order of the models that need more accelerators, or CPUs and memory, than the nodes have.

Three rules apply to each kind of accelerator separately (by the resource's name), and to models without
accelerators:

- **All or nothing.** One of the unschedulable models is first. The others release their resources and create
  no pods until the first one has been scheduled. Therefore no two models each hold half of the resources
  that they need.
- **An awake model takes precedence over a waking one.** An awake model that has lost a pod is first, and
  keeps its gate open and its remaining pods. Therefore no waking model keeps half of its resources. Of two
  such awake models, the second one closes its gate, releases its resources and wakes again, if that frees
  capacity for the first.
- **An idle model yields** (`yielding.py`). For the first model, as few models as possible are put to sleep,
  and of those the ones idle for longest, whatever they release. They sleep only if that frees enough on one
  node. Background work, such as a batch, yields before all others. Busy models that take turns yield last.

One rule applies to all kinds together. If the scheduler would delete pods of others for a model's pods, the
model creates none before those models have left (`preempting.py`).

All rules follow from the current observation. The only memory is that a model has released its pods.
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
"""Minimum number of measured waits for a kind of accelerator before an expected time is reported."""


def turns(
    claims: Collection[Claim],
    fleet: Fleet,
    now: datetime,
    node_wait: timedelta = timedelta(0),
) -> dict[tuple[str, str], Turn]:
    """Return the turns of the affected models, by workload and model.

    Args:
        claims: All models that hold or need accelerators, or CPUs.
        fleet: The nodes and their pods.
        now: The current time.
        node_wait: Minimum time for which the scheduler has not found capacity before any model frees some,
            since nodes may be added in that time. If another model has already waited that long, a new model
            queues at once, because nodes would have been added for the other one.
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
    """Return the claim of a model whose action is decided already: it only keeps its resources."""
    return replace(
        claim, waits=False, lost=False, queued=False, no_room_since=None, first_since=None, yields_at=None,
        leaving=False, stays_down=False,
    )  # fmt: skip


def _preempting(claims: Collection[Claim], fleet: Fleet, now: datetime) -> dict[tuple[str, str], Turn]:
    """Return the turns of models whose pods would preempt others, and of those other models."""
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
    """Return the turns of one queue.

    They are for the unschedulable models, and for all that hold or need the same resource (`same`). They also
    cover models of other resources that yield CPUs and memory (`beside`).
    """
    # An idle model that has lost pods does not need them while a busy model waits.
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
    if not (first.queued or first.background or first.abandoned):
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
    """Return the holders of the required resource, with the model if several models of a workload use it."""
    models = Counter(each.owner for each in same)
    found = {f"{each.owner}/{each.model}" if models[each.owner] > 1 else each.owner for each in holding}
    return tuple(sorted(found))


def _gives_way(claim: Claim, now: datetime) -> bool:
    """Return True if the model may be put to sleep by itself, because it is idle."""
    return claim.yields_at is not None and claim.yields_at <= now and not claim.busy


def _starts(claim: Claim) -> bool:
    """Return True if the model has been scheduled and is starting or waking."""
    return claim.waits and any(claim.holds.values()) and not claim.queued and claim.no_room_since is None


def _expected(first: Claim, same: Collection[Claim], now: datetime) -> Callable[[int], datetime | None]:
    """Return a function from the number of models ahead to the expected time of capacity, or None.

    Each model follows the one ahead of it after the median duration of such waits. For the first model the
    time is unknown after it has waited longer than any measured wait.
    """
    measured = sorted(seconds for claim in same for seconds in claim.room_seconds)
    known = len(measured) >= LEAST_MEASURED and first.first_since is not None
    if not known or first.overdue or first.background:
        return lambda _: None
    began, median = first.first_since or now, timedelta(seconds=median_low(measured))
    likely = (began + length for length in (median, timedelta(seconds=measured[-1])))
    soonest = next((moment for moment in likely if moment > now), None)
    return lambda number: soonest and soonest + number * median


def _waited_for(holder: Claim, queue: Iterable[Claim]) -> int:
    """Return the accelerators that a model holds and that other pods wait for, except those of batches."""
    desired = sum(claim.devices for claim in queue if claim.owner != holder.owner and not claim.background)
    return min(holder.held, desired)


def _order(fleet: Fleet, claim: Claim) -> tuple[object, ...]:
    """Return the sort key of `_rank`, with preempting pods ahead of those that they would preempt."""
    of = priority(fleet.classes, claim.priority_class)
    rank = _rank(claim)
    return (rank[0], -of.value if of.preempts else 0, *rank[1:])


def _rank(claim: Claim) -> tuple[object, ...]:
    """Return the sort key of a model in the queue.

    Awake models that have lost pods are first. Then follow the highest priority, models with held requests,
    and the oldest held request. If its time is unknown, the start of the wake counts. A model that was first
    for its hold timeout without being scheduled lets the others try for a while. A model that never fits
    therefore does not block them for long. A model without clients is behind the others too.
    """
    last = (claim.abandoned, claim.overdue, claim.background)
    since = claim.held_since or claim.since
    return (last, not claim.lost, -claim.priority, not claim.requested, since, claim.name)
