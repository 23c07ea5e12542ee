"""One reconcile: observe → build → decide → apply → ask → decide → status."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from daybreak.api.gates.gate_status import GateState
from daybreak.api.llmservice.definition import LLM_SERVICES, LLMService
from daybreak.controller import metrics
from daybreak.controller.events import transitions
from daybreak.controller.kind import LeaseLost
from daybreak.gates import savings
from daybreak.kinds.llmservice.decide.caches import caches
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.llmservice.decide.decision import Decision, decide
from daybreak.kinds.llmservice.observe.adapter_reports import AdapterProber, replicas
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import Observer, active_cluster, base_url
from daybreak.kinds.llmservice.observe.prober import Prober, Question
from daybreak.kinds.llmservice.plan import Plan, led_past, make_plan
from daybreak.kube import scale, status
from daybreak.kube.apply import Applier, Occupied, is_controlled_by, key_of
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import OWNED, RAY_CLUSTERS, of
from daybreak.platform import Platform
from daybreak.scheduling.replica_size import accelerators_awake

SOON_SECONDS = 2.0
"""When to look again at what resolves by itself: a predecessor's objects on their way out, a lost race."""
FOREIGN_SECONDS = 15.0
"""When to look again whether a name is still taken: objects without our labels are not watched."""
FRESH_SECONDS = 60.0
"""How long after an LLMService was last heard of it is believed to be there."""
REFUSED_SECONDS = 60.0
"""When to try again what the API server has refused."""

log = structlog.get_logger("daybreak.reconcile")


class Reconciler:
    """Makes the cluster what an LLMService says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
        prober: Asks models.
        adapters: Asks replicas about their adapters.
        applier: Writes objects.
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
        applier: Applier,
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._cache = cache
        self._observer = observer
        self._platform = platform
        self._prober = prober
        self._adapters = adapters
        self._may_act = may_act
        self._applier = applier

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMService. Returns when to look again, in seconds; None: at a change."""
        for _ in OWNED:
            try:
                return await self._once(key)
            except Occupied:
                continue  # the next observation sees by whom
        return SOON_SECONDS

    async def _once(self, key: Key) -> float | None:
        seen = self._observer.observe(key)
        if seen is None:
            self._prober.forget(key)
            self._adapters.forget(key)
            self._applier.forget(key)
            savings.SAVED.see(key, 0)
            return None
        asked = replicas(seen, active_cluster(seen.ray_service))
        seen = replace(seen, reports=self._adapters.reports(key, asked))
        again: list[float] = []
        plan = await make_plan(seen, self._platform, self._cache, self._applier)
        if plan is not None:
            seen = replace(seen, own=plan.own)
        if plan is not None and plan.foreign:
            seen = replace(seen, foreign=plan.foreign)
            again.append(FOREIGN_SECONDS)
        decision = decide(seen)
        if plan is not None and decision.apply and not _turned(seen, decision):
            if plan.leaving:
                again.append(SOON_SECONDS)
            else:
                refusal, wrote = await self._apply(key, seen, plan)
                if refusal is None:
                    return None  # the service is gone
                if refusal:
                    again.append(REFUSED_SECONDS)
                if refusal or wrote:
                    seen = replace(self._observer.again(key, seen), refusal=refusal)
                    decision = decide(seen)
                if not _turned(seen, decision) and not plan.filling:
                    again += await self._scale(seen)
        answers = self._answers(key, seen, decision)
        if answers != seen.answers:
            decision = decide(replace(seen, answers=answers))
        if not await self._say(key, seen, decision):
            return None
        if any(
            state.asleep != seen.sleep_states[model].asleep for model, state in decision.sleep_states.items()
        ):
            # It is written before it is carried out: whoever goes on after a crash knows of it.
            again.append(0.0)
        if led_past(seen, decision.sleep_states) and not (seen.gateway and seen.gateway.past):
            # The same: its address is changed when it is written that clients are answered.
            again.append(0.0)
        if seen.service is not None and any(
            copy.complete and not copy.noted for copy in caches(seen, seen.service)
        ):
            # It is written now: its Job is not needed any more.
            again.append(0.0)
        if decision.requeue_after is not None:
            again.append(decision.requeue_after.total_seconds())
        return min(again) if again else None

    async def _apply(self, key: Key, seen: Observed, plan: Plan) -> tuple[str | None, bool]:
        """Write what differs.

        Returns what was refused (None: the service is gone), and whether anything was written.
        """
        if not await self._may_own(key, seen, plan):
            return None, False
        wrote = False
        for target in plan.targets:
            self._check()
            try:
                if await self._applier.apply(target.wanted, target.live):
                    metrics.WRITES.labels(target.wanted["kind"]).inc()
                    wrote = True
            except ApiError as error:
                if not error.refused:
                    raise
                return f"{target.wanted['kind']} {target.wanted['metadata']['name']}: {error.message}", wrote
        for live in plan.surplus:
            self._check()
            await self._applier.delete(live)
            metrics.WRITES.labels(live["kind"]).inc()
            wrote = True
        return "", wrote

    async def _scale(self, seen: Observed) -> list[float]:
        """Carry the bounds of the worker groups into the RayClusters that run."""
        bounds, again = cluster_bounds(seen), []
        for cluster in seen.ray_clusters:
            wanted = bounds.get(cluster["metadata"]["name"])
            if wanted is None:
                continue
            self._check()
            try:
                if await scale.set_bounds(self._api, self._cache, cluster, wanted):
                    metrics.WRITES.labels(RAY_CLUSTERS.kind).inc()
            except ApiError as error:
                if not (error.conflict or error.not_found or error.status == 422):
                    raise
                again.append(SOON_SECONDS)  # the autoscaler or KubeRay was quicker
        return again

    def _answers(self, key: Key, seen: Observed, decision: Decision) -> tuple[Any, ...]:
        if not decision.ask or seen.service is None:
            self._prober.forget(key)
            return ()
        base = base_url(seen, seen.service)
        if base is None:
            self._prober.forget(key)
            return ()
        about = (seen.service.uid, seen.service.generation, active_cluster(seen.ray_service))
        questions = [
            Question(seen.service, model, base, about, waking=_held(decision, model.name))
            for model in seen.service.spec.models
            if model.name in decision.ask
        ]
        return self._prober.answers(key, questions)

    async def _say(self, key: Key, seen: Observed, decision: Decision) -> bool:
        """Write the status if it has changed, post what has turned. False: the service is gone."""
        before = seen.manifest.get("status") or {}
        after = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if seen.service is not None:
            savings.SAVED.see(key, _saved(seen.service, decision))
        if before == after:
            return True
        self._check()
        try:
            await status.write_status(self._api, self._cache, LLM_SERVICES, seen.manifest, after)
        except ApiError as error:
            if error.not_found:
                self._cache.forget(LLM_SERVICES, key)
                return False
            raise
        metrics.WRITES.labels("status").inc()
        savings.count_wakes(key, before, after)
        for turned in transitions(before, after):
            try:
                await status.emit(
                    self._api,
                    LLM_SERVICES,
                    seen.manifest,
                    warning=turned.warning,
                    reason=turned.reason,
                    action=turned.type,
                    note=turned.note,
                    now=seen.now,
                )
            except ApiError as error:
                # The condition says the same and is already written.
                log.warning("event not posted", service=str(key), reason=turned.reason, error=str(error))
        return True

    async def _may_own(self, key: Key, seen: Observed, plan: Plan) -> bool:
        """Whether this very LLMService is still there, where its objects are to be made or taken.

        Each kind has its own watch, and one may be ahead of the other. An object without an owner may be one
        that is being orphaned this moment, by a deletion of which the watch of LLMServices has not told yet:
        only the API server knows. One that was there and is not any more may have been deleted with its
        LLMService. One that was never there may be made for an LLMService that has gone only if that was
        while nobody watched; the garbage collector would remove for ever what we make for ever.
        """
        uid = seen.manifest["metadata"]["uid"]
        orphans = any(
            target.live is not None and not is_controlled_by(target.live, uid) for target in plan.targets
        )
        missing = [target.wanted for target in plan.targets if target.live is None]
        lost = any(self._cache.lost(of(wanted), key_of(wanted)) for wanted in missing)
        stale = bool(missing) and self._cache.age(LLM_SERVICES, key) > FRESH_SECONDS
        if not orphans and not lost and not stale:
            return True
        found = await status.read(self._api, LLM_SERVICES, key)
        if found is None:
            self._cache.forget(LLM_SERVICES, key)
            return False
        self._cache.put(LLM_SERVICES, found)
        metadata = found["metadata"]
        return bool(metadata["uid"] == uid and not metadata.get("deletionTimestamp"))

    def _check(self) -> None:
        if not self._may_act():
            raise LeaseLost


def _turned(seen: Observed, decision: Decision) -> bool:
    """Whether the decision ends a sleep that stands in the status.

    What was planned is of that sleep, and may not be carried out yet: workers that were taken now would have
    to be made again at once. That it wakes is written first, and the next reconcile plans anew.
    """
    return any(
        state.asleep is None and model in seen.given_back for model, state in decision.sleep_states.items()
    )


def _saved(service: LLMService, decision: Decision) -> int:
    """Accelerators that models would hold which sleep."""
    states = decision.sleep_states
    return sum(
        accelerators_awake(service.workload, model)
        for model in service.spec.models
        if model.name in states and states[model.name].asleep is not None
    )


def _held(decision: Decision, model: str) -> bool:
    """Whether requests to a model are held."""
    state = decision.sleep_states.get(model)
    return state is not None and state.gate is not GateState.OPEN
