"""One reconcile of a workload with one gate: observe → plan → decide → apply → ask → decide → status."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Generic, TypeVar

from daybreak.api.schema.resource import Resource
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again, past_races
from daybreak.controller.asking.answer import Answer
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.events import transitions
from daybreak.controller.plan import Plan
from daybreak.controller.writer import Writer
from daybreak.gates import loop
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.writing.apply import Applier
from daybreak.scheduling.room import places
from daybreak.workloads.decision import Decision
from daybreak.workloads.observed import OneGate
from daybreak.workloads.observer import Observer

S = TypeVar("S", bound=OneGate[Any])
R = TypeVar("R", bound=Any)


class Reconciler(ABC, Generic[S, R]):
    """Makes the cluster what an object of the kind says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        owned: The kinds of objects that are made.
        applier: Writes objects.
        others: Asks what pods of others hold on nodes.
        may_act: Whether the lease is held this moment.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        observer: Observer[S],
        owned: Collection[Resource],
        applier: Applier,
        others: OtherPods,
        may_act: Callable[[], bool],
    ) -> None:
        self._observer = observer
        self._owned = owned
        self._applier = applier
        self._others = others
        self._writer = Writer(api, cache, applier, observer.resource, may_act)

    @abstractmethod
    def decide(self, seen: S) -> Decision[R]:
        """What to do about it."""

    @abstractmethod
    async def plan(self, seen: S) -> Plan:
        """What its objects should be; it can be read."""

    async def applied(self, seen: S) -> list[float]:
        """Do what is beside the objects, once they are what they should be. Returns when to look again."""
        return []

    def answers(self, key: Key, seen: S, decision: Decision[R]) -> tuple[Answer, ...]:
        """What it answers when it is asked; nothing where it is not."""
        return ()

    def forget(self, key: Key) -> None:
        """It has gone."""

    def to_carry_out(self, seen: S, decision: Decision[R]) -> bool:
        """Whether more than sleep was decided on that the next reconcile carries out."""
        return False

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one. Returns when to look again, in seconds; None: at a change."""
        return await past_races(self._once, key, self._owned)

    async def _once(self, key: Key) -> float | None:
        owner = self._observer.owner(key)
        seen = self._observer.observe(key)
        if seen is None:
            self.forget(key)
            self._applier.forget(owner)
            loop.see(owner, None, None)
            return None
        again = Again()
        seen = await self._with_others(seen)
        decision = self.decide(seen)
        if decision.apply and seen.subject is not None and not loop.turned_awake(_gates(seen, decision)):
            uid = str(seen.subject.uid)
            plan = await self.plan(seen)
            if plan.foreign:
                seen = replace(seen, foreign=plan.foreign)
                again.after(FOREIGN_SECONDS)
            elif plan.leaving:
                again.after(SOON_SECONDS)
            else:
                applied = await self._writer.carry_out(key, uid, plan)
                if applied is None:
                    return None  # the owner is gone
                if applied.refusal:
                    again.after(REFUSED_SECONDS)
                seen = replace(self._observer.again(key, seen), refusal=applied.refusal, booked=seen.booked)
                again.after(*await self.applied(seen))
            decision = self.decide(seen)
        answers = self.answers(key, seen, decision)
        if answers:
            seen = replace(seen, answers=answers)
            decision = self.decide(seen)
        if not await self._say(key, seen, decision):
            return None
        if loop.sleep_differs(_gates(seen, decision)) or self.to_carry_out(seen, decision):
            again.at_once()
        again.within(decision.requeue_after)
        return again.seconds

    async def _with_others(self, seen: S) -> S:
        """With what pods of others hold, where it matters what is taken of nodes."""
        if seen.booked is None or seen.nodes is None or seen.subject is None:
            return seen
        asked = places(seen.subject.workload, seen.nodes)
        return replace(seen, booked=await self._others.beside(seen.booked, asked))

    async def _say(self, key: Key, seen: S, decision: Decision[R]) -> bool:
        """Write the status if it has changed, post what has turned. False: it is gone."""
        owner = self._observer.owner(key)
        loop.see(owner, decision.status.savings, decision.status.gate)
        said = await self._writer.say(key, seen.manifest, decision.status, transitions, seen.now)
        if said.new:
            loop.count(owner, said)
        return not said.gone


def _gates(seen: OneGate[Any], decision: Decision[Any]) -> list[loop.Turned]:
    return [(seen.sleep_state, decision.sleep_state)]
