"""One reconcile of a workload: observe → plan → assess → decide → apply → report, each once.

A decision is written into the status before the next reconcile applies it, so that an operator that continues
after a crash knows the decision. A plan therefore needs only the observation, which includes the status.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again, retry_conflicts
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.live import observe_live
from daybreak.controller.parts import Parts
from daybreak.controller.writer import Writer
from daybreak.loop import sleep_marks
from daybreak.loop.observer import Observer
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import Owner
from daybreak.manifests.plan import Live, Plan
from daybreak.problems.events import transitions
from daybreak.scheduling.room import places
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.decision import Decided, decide
from daybreak.workloads.kind_functions import KindFunctions
from daybreak.workloads.observed import Observed
from daybreak.workloads.reporting import Report, report

S = TypeVar("S", bound=Observed[Any])
V = TypeVar("V", bound=Assessed)
P = TypeVar("P", bound=Plan)


class Reconciler(ABC, Generic[S, V, P]):
    """Makes the cluster match an object of the kind, and reports the result.

    Args:
        parts: Dependencies that all kinds share.
        observer: Observes an object.
        ways: Functions of the kind.
        owned: Kinds of the objects that the operator creates.
        prober: Probes models, or None if the kind has no probes.
    """

    def __init__(
        self,
        parts: Parts,
        observer: Observer[S],
        ways: KindFunctions[S, V, Any],
        owned: Collection[Resource],
        prober: Prober | None = None,
    ) -> None:
        self._observer = observer
        self._ways = ways
        self._owned = owned
        self._prober = prober
        self._cache = parts.cache
        self._platform = parts.platform
        self._applier = parts.applier
        self._others = parts.others
        self._writer = Writer(parts.api, parts.cache, parts.applier, observer.resource, parts.may_act)
        self._refusals: dict[Key, str] = {}
        """Message of the API server when it last rejected an object, by workload."""

    @abstractmethod
    def objects(self, observed: S) -> Sequence[dict[str, Any]]:
        """Return the desired objects of a workload whose spec can be built, dependencies first."""

    @abstractmethod
    def plan(self, observed: S, desired: Sequence[dict[str, Any]], live: Live) -> P:
        """Return the plan from the live objects to the desired ones."""

    def names_of_others(self, observed: S) -> Sequence[Manifest]:
        """Return objects, without specs, that another controller creates and whose names must be free."""
        return ()

    def prepare(self, key: Key, observed: S) -> S:
        """Add observations from outside the cache."""
        return observed

    def with_plan(self, observed: S, plan: P) -> S:
        """Add the results of the plan: names that belong to other owners."""
        return replace(observed, foreign=plan.foreign)

    async def carry_on(self, observed: S, plan: P) -> Sequence[float]:
        """Do further work after the objects match, and return the delays until the next reconcile."""
        return ()

    def questions(self, observed: S) -> Sequence[Question]:
        """Return the probe of each model that can currently be probed."""
        return ()

    def forget(self, key: Key) -> None:
        """Drop all data about a deleted object."""

    def is_due(self, observed: S, decided: Decided, status: Any) -> bool:
        """Return True if a decision specific to the kind must be applied by the next reconcile."""
        return False

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object; return the seconds until the next time, or None to wait for a change."""
        return await retry_conflicts(self._once, key, self._owned)

    async def _once(self, key: Key) -> float | None:
        again = Again()
        observed = await self._observe(key)
        if observed is None:
            return None
        plan: P | None = None
        if self._can_be_planned(observed):
            plan = await self._plan(key, observed)
            if plan.foreign:
                again.after(FOREIGN_SECONDS)
            observed = await self._with_others(self.with_plan(observed, plan))
        view = self._ways.read(observed)
        decided = decide(view, self._ways.course)
        gates = [(observed.sleep_states.get(gate), state) for gate, state in decided.states.items()]
        if plan is not None and decided.apply and not sleep_marks.turned_awake(gates):
            applied = await self._apply(key, observed, plan, again)
            if applied is None:
                return None  # the object was deleted
            if applied is not observed:
                observed, view = applied, self._ways.read(applied)
        found: Report[Any] = report(observed, view, decided, self._ways)
        self._ask(key, observed, decided)
        if not await self._write(key, observed, found):
            return None
        if (
            sleep_marks.sleep_differs(gates)
            or _is_taken(observed, decided)
            or self.is_due(observed, decided, found.status)
        ):
            again.at_once()
        again.within(found.look_again)
        return again.seconds

    async def _observe(self, key: Key) -> S | None:
        observed = self._observer.observe(key)
        if observed is None:
            owner = self._observer.owner(key)
            self.forget(key)
            self._refusals.pop(key, None)
            self._applier.forget(owner)
            sleep_marks.see(owner, None, None)
            if self._prober is not None:
                self._prober.forget(key)
            return None
        observed = replace(self.prepare(key, observed), refusal=self._refusals.get(key, ""))
        if self._prober is None:
            return observed
        return replace(observed, answers=self._prober.answers(key, self.questions(observed)))

    def _can_be_planned(self, observed: S) -> bool:
        if observed.manifest["metadata"].get("deletionTimestamp") or observed.subject is None:
            return False
        return self._ways.blocked(replace(observed, refusal="")) is None

    async def _plan(self, key: Key, observed: S) -> P:
        owner = Owner(self._observer.resource, key, observed.manifest["metadata"]["uid"])
        desired = self.objects(observed)
        needed = (*desired, *self.names_of_others(observed))
        live = await observe_live(owner, needed, self._owned, self._cache, self._applier)
        return self.plan(observed, desired, live)

    async def _with_others(self, observed: S) -> S:
        """Add the allocations of other pods, if a rollout may need capacity alongside the current pods."""
        if observed.booked is None or observed.nodes is None or observed.target is None:
            return observed
        requested = places(observed.target.workload, observed.nodes)
        return replace(observed, booked=await self._others.beside(observed.booked, requested))

    async def _apply(self, key: Key, observed: S, plan: P, again: Again) -> S | None:
        """Write the differing objects, and observe again after a write. None if the object was deleted."""
        if plan.leaving:
            again.after(SOON_SECONDS)
            return observed
        applied = await self._writer.carry_out(key, observed.manifest["metadata"]["uid"], plan)
        if applied is None:
            return None
        if applied.refusal:
            again.after(REFUSED_SECONDS)
        if bool(applied.refusal) != bool(observed.refusal):
            again.at_once()  # the next decision uses the new refusal
        self._refusals[key] = applied.refusal
        if applied.refusal or applied.wrote:
            # An answer may belong to the previous objects.
            answers = () if applied.wrote else observed.answers
            now = self._observer.again(key, observed)
            observed = replace(now, refusal=applied.refusal, answers=answers)
        again.after(*await self.carry_on(observed, plan))
        return observed

    def _ask(self, key: Key, observed: S, decided: Decided) -> None:
        if self._prober is None:
            return
        requested = [each for each in self.questions(observed) if each.model.name in decided.asking.now]
        self._prober.ask(key, requested)

    async def _write(self, key: Key, observed: S, found: Report[Any]) -> bool:
        """Write the status if it has changed, and post events. Return False if the object was deleted."""
        owner = self._observer.owner(key)
        sleep_marks.see(owner, found.status.savings, found.status.gate)
        reply = await self._writer.write(key, observed.manifest, found.status, transitions, observed.now)
        if reply.new:
            sleep_marks.count(owner, reply)
        return not reply.gone


def _is_taken(observed: Observed[Any], decided: Decided) -> bool:
    """Return True if this reconcile decided to build another revision than the observed one.

    A previous decision counts only once: a rejected spec is never built, whatever the status shows.
    """
    history = observed.history
    if history is None or history.built is None or decided.rolled is None:
        return False
    revision = decided.rolled.state.current_revision
    return revision != history.built.name and (
        history.state is None or revision != history.state.current_revision
    )
