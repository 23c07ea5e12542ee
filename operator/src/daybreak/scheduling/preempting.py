"""Selection of the models that must leave before pods arrive for which the scheduler would preempt others.

The scheduler deletes pods immediately and closes no gate. A starting model therefore creates no pods while
they would have that effect on another model's pods. Instead, the operator selects the models that must leave,
closes their gates and lets their requests finish, which frees the capacity.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.scheduling.claim import LOOK_AGAIN, Amounts, Claim, Turn
from daybreak.scheduling.giving_room import cost, fewest_that_give, most_pods
from daybreak.scheduling.pod_priority import PriorityClass

Name = tuple[str, str]
Room = dict[str, dict[str, Decimal]]
"""Free amounts on each node."""
_NOTHING = Decimal(0)


class Preempting:
    """Finds the models that wait for others to leave, those that leave, and those that must not interfere.

    Args:
        claims: All models that hold or need resources.
        free: Free amounts on each node, or None while they are being determined.
        priority: Returns the priority of a model's pods.
        rank: Returns the sort key among models of one priority; the lowest is first.
        yields: Returns True if a model yields by itself, because it is idle or its turn is over.
    """

    def __init__(
        self,
        claims: Collection[Claim],
        free: Mapping[str, Amounts] | None,
        priority: Callable[[Claim], PriorityClass],
        rank: Callable[[Claim], tuple[object, ...]],
        yields: Callable[[Claim], bool],
    ) -> None:
        self._claims = claims
        self._known = free is not None
        self._now: Room = {node: dict(amounts) for node, amounts in (free or {}).items()}
        """Free amounts, without those that continuing models take."""
        self._counted: set[Name] = set()
        """Models whose released amounts are counted already."""
        self._left = _copy(self._now)
        """Free amounts including future releases, without those promised to arriving models."""
        self._priority = {claim.name: priority(claim) for claim in claims}
        self._yields = yields
        self._promised: list[Claim] = []
        """Models with promised capacity, in order."""
        self.found: dict[Name, Turn] = {}
        """Turns of the affected models."""
        comers = [claim for claim in claims if _comes(claim) and self._priority[claim.name].preempts]
        self._comers = {comer.name for comer in comers}
        for comer in sorted(comers, key=lambda claim: (-self._value(claim), rank(claim))):
            if comer.name not in self.found:
                self._look(comer)

    def _value(self, claim: Claim) -> int:
        return self._priority[claim.name].value

    def _look(self, comer: Claim) -> None:
        """Decide on a model that is about to create pods."""
        lower = [each for each in self._claims if self._value(each) < self._value(comer)]
        before = [each for each in self._promised if self._value(each) > self._value(comer)]
        if not (lower or before):
            return
        there = [each for each in lower if _stands_where(each, comer)]
        if not self._known:
            if there:
                self._hold_back(comer, there, there)
            return
        going = [each for each in self._claims if each.leaving and _stands_where(each, comer)]
        forced = {each.name for each in there}
        now, reach, requested = self._reckoned(comer, going, forced)
        starts = reach >= max(comer.first_lacks, 1)
        if now < comer.lacks and self._would_delete(comer, there):
            enough = starts and not comer.abandoned
            leave = [*(each for each in going if each.name in forced), *(requested if enough else ())]
            self._hold_back(comer, leave or there, there)
            if not enough:
                return
            for each in leave:
                self.found[each.name] = _leaves(each, comer, forced=each.name in forced)
            for each in (*going, *requested):
                if each.name not in self._counted:
                    self._counted.add(each.name)
                    _give(self._left, each)
        elif before and now < comer.lacks:
            self.found[comer.name] = Turn(after=(before[-1].owner,))
            return
        else:
            _take(self._now, comer, comer.lacks)
        _take(self._left, comer, comer.lacks)
        if starts:
            self._promised.append(comer)
            self._keep_down(comer, lower)

    def _would_delete(self, comer: Claim, there: Iterable[Claim]) -> bool:
        """Return True if the scheduler would place more of the pods by preemption.

        It would delete pods with a lower priority, including those that already terminate.
        """
        room = _copy(self._now)
        now = _take(room, comer, comer.lacks)
        for each in there:
            _give(room, each)
        return _take(room, comer, comer.lacks - now) > 0

    def _reckoned(
        self, comer: Claim, going: Iterable[Claim], forced: Collection[Name]
    ) -> tuple[int, int, list[Claim]]:
        """Return the number of pods that fit now and after all releases, and the models to put to sleep.

        The releases are those of the leaving models and of the models to put to sleep.
        """
        now, room = _take(_copy(self._now), comer, comer.lacks), _copy(self._left)
        for each in going:
            if each.name not in self._counted:
                _give(room, each)
        reach, requested = _take(room, comer, comer.lacks), list[Claim]()
        may = [
            each
            for each in self._claims
            if not each.leaving
            and each.name not in {comer.name, *self.found}
            and _stands_where(each, comer)
            and (each.name in forced or self._yields(each))
        ]
        while reach < comer.lacks:
            chosen = _for_one_more(comer, room, [each for each in may if each not in requested], forced)
            if not chosen:
                break
            requested += chosen
            for each in chosen:
                _give(room, each)
            reach += _take(room, comer, comer.lacks - reach)
        return now, reach, requested

    def _hold_back(self, comer: Claim, leave: Iterable[Claim], there: Iterable[Claim]) -> None:
        owners = tuple(dict.fromkeys(each.owner for each in leave))
        holders = tuple(sorted({each.owner for each in there}))
        place = 1 + sum(turn.preempts for turn in self.found.values())
        self.found[comer.name] = Turn(
            after=owners[:MAX_AFTER], held_by=holders, place=place, preempts=True, look_again=LOOK_AGAIN
        )

    def _keep_down(self, comer: Claim, lower: Iterable[Claim]) -> None:
        """Make models wait that would take the capacity before the arriving model's pods have it."""
        for each in lower:
            if each.name in self.found or each.name in self._comers or each.gives:
                continue
            if each.leaving and each.comes_back and each.resource == comer.resource:
                self.found[each.name] = Turn(gives_way_to=comer.owner, preempted=True)
            elif each.waits and each.lacks and _take(self._left, each, each.lacks) < each.lacks:
                self.found[each.name] = Turn(after=(comer.owner,))


def _comes(claim: Claim) -> bool:
    """Return True if the model is about to create pods that the scheduler has not evaluated.

    A model that has waited longer than its hold timeout creates its pods anyway, because the calculation may
    have been wrong.
    """
    return claim.waits and claim.lacks > 0 and claim.no_room_since is None and not claim.wake_overdue


def _stands_where(claim: Claim, comer: Claim) -> bool:
    """Return True if the model holds resources on a node that another model's pods may use."""
    return any(comer.nodes is None or node in comer.nodes for node in claim.gives)


def _for_one_more(
    comer: Claim, room: Room, candidates: Collection[Claim], forced: Collection[Name]
) -> list[Claim]:
    """Return the models that must leave so that one more pod fits on one node."""

    def dear(some: Collection[Claim]) -> tuple[int, ...]:
        return (*(sum(cost(each, forced) == level for each in some) for level in (3, 2, 1)), len(some))

    best: list[Claim] = []
    for node in sorted({node for each in candidates for node in each.gives} & room.keys()):
        if comer.nodes is not None and node not in comer.nodes:
            continue
        missing = {name: each - room[node].get(name, _NOTHING) for name, each in comer.needs.items()}
        lacking = {name: each for name, each in missing.items() if each > 0}
        chosen = fewest_that_give([each for each in candidates if node in each.gives], node, lacking, forced)
        if chosen and (not best or dear(chosen) < dear(best)):
            best = chosen
    return best


def _take(room: Room, claim: Claim, most: int) -> int:
    """Reserve capacity for at most `most` of a model's pods, and return their number."""
    booked = 0
    for node in sorted(room):
        if claim.nodes is not None and node not in claim.nodes:
            continue
        here = min(most_pods(room[node], claim.needs), most - booked)
        for name, amount in claim.needs.items():
            room[node][name] = room[node].get(name, _NOTHING) - here * amount
        booked += here
    return booked


def _give(room: Room, claim: Claim) -> None:
    """Add the resources that become free when a model has left."""
    for node in claim.gives.keys() & room.keys():
        for name, amount in claim.gives[node].items():
            room[node][name] = room[node].get(name, _NOTHING) + amount


def _copy(room: Room) -> Room:
    return {node: dict(amounts) for node, amounts in room.items()}


def _leaves(claim: Claim, comer: Claim, *, forced: bool) -> Turn:
    """Return the turn of a model that leaves. A starting model releases its pods and waits."""
    if claim.waits:
        return Turn(after=(comer.owner,))
    waited_for = 0 if comer.background else min(claim.held, comer.devices * comer.lacks)
    return Turn(gives_way_to=comer.owner, preempted=forced, waited_for=waited_for)
