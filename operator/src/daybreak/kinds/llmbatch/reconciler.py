"""One reconcile of a batch: observe → decide → plan → apply → decide → status."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmbatch.status import LLMBatchStatus
from daybreak.controller import metrics
from daybreak.controller.job_reports import JobProber, running_job
from daybreak.controller.job_status import COUNT_SECONDS
from daybreak.controller.writer import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Writer
from daybreak.kinds.llmbatch.decide.decision import decide
from daybreak.kinds.llmbatch.observe.observed import Observed, Progress
from daybreak.kinds.llmbatch.observe.observer import Observer
from daybreak.kinds.llmbatch.plan import make_plan, owner_of
from daybreak.kinds.llmbatch.status.report import events, known, report
from daybreak.kube.apply import Applier, Occupied
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BATCHES
from daybreak.platform import Platform


class Reconciler:
    """Makes the cluster what an LLMBatch says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
        prober: Asks jobs how far they are.
        applier: Writes objects.
        may_act: Whether the lease is held this moment.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        observer: Observer,
        platform: Platform,
        prober: JobProber[Progress],
        applier: Applier,
        may_act: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._platform = platform
        self._prober = prober
        self._applier = applier
        self._writer = Writer(api, cache, applier, LLM_BATCHES, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMBatch. Returns when to look again, in seconds; None: at a change."""
        for _ in OF_BATCHES:
            try:
                return await self._once(key)
            except Occupied:
                continue  # the next observation sees by whom
        return SOON_SECONDS

    async def _once(self, key: Key) -> float | None:
        seen = self._observer.observe(key)
        if seen is None:
            self._prober.forget(key)
            self._applier.forget(owner_of(key))
            return None
        uid = seen.manifest["metadata"]["uid"]
        job = running_job(uid, seen.pods, heard=seen.finished)
        seen = replace(seen, progress=self._prober.said(key, job))
        seen = self._observer.with_turn(key, seen)
        again: list[float] = []
        decision = decide(seen)
        if decision.apply and seen.batch is not None:
            plan = await make_plan(
                seen.batch,
                self._platform,
                self._cache,
                self._applier,
                running=decision.running,
                kuberay=seen.kuberay_installed,
            )
            seen = replace(seen, foreign=plan.foreign)
            if plan.foreign:
                again.append(FOREIGN_SECONDS)
            else:
                if plan.leaving:
                    again.append(SOON_SECONDS)
                if not await self._writer.may_own(key, uid, plan.targets):
                    return None  # the batch is gone
                # What goes gives accelerators back: nothing that is refused shall stand in its way.
                await self._writer.delete(plan.surplus)
                applied = await self._writer.apply(plan.targets)
                if applied.refusal:
                    again.append(REFUSED_SECONDS)
                seen = replace(self._observer.again(key, seen), refusal=applied.refusal)
            decision = decide(seen)
        after = report(seen, decision)
        if not await self._say(key, seen, after):
            return None
        if after.finished and not seen.finished:
            # It is written now: the job waits to hear that.
            again.append(0.0)
        if after.gpus:
            again.append(COUNT_SECONDS)
        if seen.turn.look_again is not None:
            again.append(seen.turn.look_again.total_seconds())
        return min(again) if again else None

    async def _say(self, key: Key, seen: Observed, after: LLMBatchStatus) -> bool:
        """Write the status if it has changed, post what has turned. False: the batch is gone."""
        before = seen.manifest.get("status") or {}
        plain = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before == plain:
            return True
        if not await self._writer.write_status(key, seen.manifest, plain):
            return False
        if after.after and not seen.after and seen.ray_job is not None:
            metrics.YIELDS.labels(key.namespace, key.name, after.after[0]).inc()
        await self._writer.tell(seen.manifest, events(known(before), after), seen.now)
        return True
