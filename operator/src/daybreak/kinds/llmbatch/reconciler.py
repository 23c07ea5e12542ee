"""One reconcile of a batch: observe → decide → plan → apply → decide → status."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmbatch.status import LLMBatchStatus
from daybreak.controller import metrics
from daybreak.controller.kind import LeaseLost
from daybreak.kinds.llmbatch.decide.decision import decide
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.kinds.llmbatch.observe.observer import Observer
from daybreak.kinds.llmbatch.observe.progress_reports import ProgressProber, asked
from daybreak.kinds.llmbatch.plan import Plan, make_plan, owner_of
from daybreak.kinds.llmbatch.status.report import COUNT_SECONDS, events, report
from daybreak.kube import status
from daybreak.kube.apply import Applier, Occupied, is_controlled_by, key_of
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import OF_BATCHES, of
from daybreak.platform import Platform

SOON_SECONDS = 2.0
"""When to look again at what resolves by itself."""
FOREIGN_SECONDS = 15.0
"""When to look again whether a name is still taken."""
FRESH_SECONDS = 60.0
"""How long after an LLMBatch was last heard of it is believed to be there."""
REFUSED_SECONDS = 60.0
"""When to try again what the API server has refused."""

log = structlog.get_logger("daybreak.batch")


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
        prober: ProgressProber,
        applier: Applier,
        may_act: Callable[[], bool],
    ) -> None:
        self._api = api
        self._cache = cache
        self._observer = observer
        self._platform = platform
        self._prober = prober
        self._applier = applier
        self._may_act = may_act

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
        whom = asked(uid, seen.pods, heard=seen.finished)
        seen = replace(seen, progress=self._prober.progress(key, whom))
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
                refusal = await self._apply(key, seen, plan)
                if refusal is None:
                    return None  # the batch is gone
                if refusal:
                    again.append(REFUSED_SECONDS)
                seen = replace(self._observer.again(key, seen), refusal=refusal)
            decision = decide(seen)
        after = report(seen, decision)
        if not await self._say(key, seen, after):
            return None
        if after.finished and not seen.finished:
            # It is written now: the job waits to hear that.
            again.append(0.0)
        if after.gpus:
            again.append(COUNT_SECONDS)
        return min(again) if again else None

    async def _apply(self, key: Key, seen: Observed, plan: Plan) -> str | None:
        """Write what differs. Returns what was refused; None: the batch is gone."""
        if not await self._may_own(key, seen, plan):
            return None
        for live in plan.surplus:
            self._check()
            await self._applier.delete(live)
            metrics.WRITES.labels(live["kind"]).inc()
        for target in plan.targets:
            self._check()
            try:
                if await self._applier.apply(target.wanted, target.live):
                    metrics.WRITES.labels(target.wanted["kind"]).inc()
            except ApiError as error:
                if not error.refused:
                    raise
                return f"{target.wanted['kind']} {target.wanted['metadata']['name']}: {error.message}"
        return ""

    async def _say(self, key: Key, seen: Observed, after: LLMBatchStatus) -> bool:
        """Write the status if it has changed, post what has turned. False: the batch is gone."""
        before = seen.manifest.get("status") or {}
        plain = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before == plain:
            return True
        self._check()
        try:
            await status.write_status(self._api, self._cache, LLM_BATCHES, seen.manifest, plain)
        except ApiError as error:
            if error.not_found:
                self._cache.forget(LLM_BATCHES, key)
                return False
            raise
        metrics.WRITES.labels("status").inc()
        known = {field.alias or name for name, field in LLMBatchStatus.model_fields.items()}
        earlier = {name: value for name, value in before.items() if name in known}
        for told in events(LLMBatchStatus.model_validate(earlier), after):
            try:
                await status.emit(
                    self._api,
                    LLM_BATCHES,
                    seen.manifest,
                    warning=told.warning,
                    reason=told.reason,
                    action="Batch",
                    note=told.note,
                    now=seen.now,
                )
            except ApiError as error:
                # The status says the same and is already written.
                log.warning("event not posted", batch=str(key), reason=told.reason, error=str(error))
        return True

    async def _may_own(self, key: Key, seen: Observed, plan: Plan) -> bool:
        """Whether this very LLMBatch is still there, where its objects are to be made or taken.

        As with LLMServices: its watch may be behind those of its objects, and only the API server knows.
        """
        uid = seen.manifest["metadata"]["uid"]
        orphans = any(
            target.live is not None and not is_controlled_by(target.live, uid) for target in plan.targets
        )
        missing = [target.wanted for target in plan.targets if target.live is None]
        lost = any(self._cache.lost(of(wanted), key_of(wanted)) for wanted in missing)
        stale = bool(missing) and self._cache.age(LLM_BATCHES, key) > FRESH_SECONDS
        if not orphans and not lost and not stale:
            return True
        found = await status.read(self._api, LLM_BATCHES, key)
        if found is None:
            self._cache.forget(LLM_BATCHES, key)
            return False
        self._cache.put(LLM_BATCHES, found)
        metadata = found["metadata"]
        return bool(metadata["uid"] == uid and not metadata.get("deletionTimestamp"))

    def _check(self) -> None:
        if not self._may_act():
            raise LeaseLost
