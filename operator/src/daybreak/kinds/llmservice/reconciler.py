"""One reconcile: observe → plan → decide → apply → ask → decide → status."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from daybreak.api.gates.gate_state import GateState
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again, past_races
from daybreak.controller.asking.job_events import JobEvents, waiting
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.events import transitions
from daybreak.controller.writer import Writer
from daybreak.gates import loop
from daybreak.kinds.llmservice.decide.caches import caches
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds, needless
from daybreak.kinds.llmservice.decide.decision import Decision, decide
from daybreak.kinds.llmservice.decide.finished_clusters import finished_clusters
from daybreak.kinds.llmservice.observe.adapter_reports import AdapterProber, replicas
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber, copying
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import Observer, active_cluster, base_url
from daybreak.kinds.llmservice.plan import led_past, make_plan
from daybreak.kube.client import Api
from daybreak.kube.resources import OWNED
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.writing.apply import Applier
from daybreak.platform import Platform
from daybreak.scheduling.room import places


class Reconciler:
    """Makes the cluster what an LLMService says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
        prober: Asks models.
        adapters: Asks replicas about their adapters.
        copies: Asks the Jobs that fill claims.
        events: Reads why Jobs have no pods.
        applier: Writes objects.
        others: Asks what pods of others hold on nodes.
        may_act: Whether the lease is held this moment.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        observer: Observer,
        platform: Platform,
        prober: Prober,
        adapters: AdapterProber,
        copies: CopyProber,
        events: JobEvents,
        applier: Applier,
        others: OtherPods,
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._cache = cache
        self._observer = observer
        self._platform = platform
        self._prober = prober
        self._adapters = adapters
        self._copies = copies
        self._events = events
        self._applier = applier
        self._others = others
        self._writer = Writer(api, cache, applier, LLM_SERVICES, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMService. Returns when to look again, in seconds; None: at a change."""
        return await past_races(self._once, key, OWNED)

    async def _once(self, key: Key) -> float | None:
        seen = self._observer.observe(key)
        if seen is None:
            self._prober.forget(key)
            self._adapters.forget(key)
            self._copies.forget(key)
            self._events.forget(key)
            self._applier.forget(key)
            loop.see(key, None, None)
            return None
        asked = replicas(seen, active_cluster(seen.ray_service))
        copies = self._copies.copies(key, copying(seen))
        rejections = self._events.rejections(key, waiting(seen.jobs, seen.pods))
        seen = replace(seen, reports=self._adapters.reports(key, asked), copies=copies, rejections=rejections)
        again = Again()
        plan = await make_plan(seen, self._platform, self._cache, self._applier)
        if plan is not None:
            seen = await self._with_others(replace(seen, own=plan.own, changes=plan.changes))
        if plan is not None and plan.foreign:
            seen = replace(seen, foreign=plan.foreign)
            again.after(FOREIGN_SECONDS)
        decision = decide(seen)
        if plan is not None and decision.apply and not loop.turned_awake(_gates(seen, decision)):
            if plan.leaving:
                again.after(SOON_SECONDS)
            else:
                applied = await self._writer.carry_out(key, seen.manifest["metadata"]["uid"], plan)
                if applied is None:
                    return None  # the service is gone
                if applied.refusal:
                    again.after(REFUSED_SECONDS)
                if applied.refusal or applied.wrote:
                    seen = replace(self._observer.again(key, seen), refusal=applied.refusal)
                    decision = decide(seen)
                if not loop.turned_awake(_gates(seen, decision)) and not plan.filling:
                    again.after(*await self._writer.set_bounds(seen.ray_clusters, cluster_bounds(seen)))
                    again.after(*await self._call_off(seen))
                again.after(*await self._writer.delete_clusters(finished_clusters(seen)))
        answers = self._answers(key, seen, decision)
        if answers != seen.answers:
            decision = decide(replace(seen, answers=answers))
        if not await self._say(key, seen, decision):
            return None
        if loop.sleep_differs(_gates(seen, decision)):
            again.at_once()
        if _revision_taken(seen, decision):
            # The same: what is built of another revision from now on.
            again.at_once()
        if led_past(seen, decision.sleep_states) and not (seen.gateway and seen.gateway.past):
            # The same: its address is changed when it is written that clients are answered.
            again.at_once()
        if seen.subject is not None and any(
            copy.complete and not copy.noted for copy in caches(seen, seen.subject)
        ):
            # It is written now: its Job is not needed any more.
            again.at_once()
        again.within(decision.requeue_after)
        return again.seconds

    async def _with_others(self, seen: Observed) -> Observed:
        """With what pods of others hold, where a change may need room beside what runs."""
        if not seen.changes or seen.booked is None or seen.nodes is None or seen.target_service is None:
            return seen
        asked = places(seen.target_service.workload, seen.nodes)
        return replace(seen, booked=await self._others.beside(seen.booked, asked))

    async def _call_off(self, seen: Observed) -> list[float]:
        """End a second Ray cluster that is not wanted any more."""
        pending = needless(seen)
        if not pending or seen.ray_service is None:
            return []
        return await self._writer.call_off(seen.ray_service, pending)

    def _answers(self, key: Key, seen: Observed, decision: Decision) -> tuple[Any, ...]:
        if not decision.ask or seen.subject is None:
            self._prober.forget(key)
            return ()
        base = base_url(seen, seen.subject)
        if base is None:
            self._prober.forget(key)
            return ()
        revision = seen.own_revision.name if seen.own_revision is not None else ""
        about = (seen.subject.uid, seen.subject.generation, revision, active_cluster(seen.ray_service))
        questions = [
            Question(seen.subject, model, base, about, waking=_held(decision, model.name))
            for model in seen.subject.spec.models
            if model.name in decision.ask
        ]
        return self._prober.answers(key, questions)

    async def _say(self, key: Key, seen: Observed, decision: Decision) -> bool:
        """Write the status if it has changed, post what has turned. False: the service is gone."""
        loop.see(key, decision.status.savings, decision.status.gate)
        said = await self._writer.say(key, seen.manifest, decision.status, transitions, seen.now)
        if said.new:
            loop.count(key, said)
        return not said.gone


def _revision_taken(seen: Observed, decision: Decision) -> bool:
    """Whether it has just been decided that the service is built of another revision than this look was of.

    What was decided before counts only once: a spec that is refused is never built, whatever stands there.
    """
    state, own = decision.status.rollout, seen.own_revision
    if state is None or own is None or state.revision == own.name:
        return False
    return seen.rollout is None or state.revision != seen.rollout.revision


def _gates(seen: Observed, decision: Decision) -> list[loop.Turned]:
    return [(seen.sleep_states[model], state) for model, state in decision.sleep_states.items()]


def _held(decision: Decision, model: str) -> bool:
    """Whether requests to a model are held."""
    state = decision.sleep_states.get(model)
    return state is not None and state.gate is not GateState.OPEN
