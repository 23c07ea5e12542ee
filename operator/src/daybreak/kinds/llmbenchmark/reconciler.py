"""One reconcile of a benchmark: observe → decide → plan → apply → decide → status."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.api.llmbenchmark.status import LLMBenchmarkStatus
from daybreak.controller.job_reports import JobProber
from daybreak.controller.job_status import COUNT_SECONDS
from daybreak.controller.writer import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Writer
from daybreak.kinds.llmbenchmark.decide.decision import decide
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.observe.observer import Observer
from daybreak.kinds.llmbenchmark.observe.progress_reports import running_job
from daybreak.kinds.llmbenchmark.plan import make_plan, owner_of
from daybreak.kinds.llmbenchmark.status.report import events, known, report
from daybreak.kube.apply import Applier, Occupied
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BENCHMARKS
from daybreak.platform import Platform

MISSING_SECONDS = 15.0
"""When to look again for a service that is not there: changes of services wake no benchmark."""


class Reconciler:
    """Makes the cluster what an LLMBenchmark says, and says what came of it.

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
        self._writer = Writer(api, cache, applier, LLM_BENCHMARKS, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMBenchmark. Returns when to look again, in seconds; None: at a change."""
        for _ in OF_BENCHMARKS:
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
        running = running_job(uid, seen.pods, heard=seen.finished)
        seen = replace(seen, progress=self._prober.said(key, running))
        again: list[float] = []
        decision = decide(seen)
        if decision.apply and seen.benchmark is not None:
            plan = await make_plan(
                seen.benchmark, decision.target, self._platform, self._cache, self._applier
            )
            seen = replace(seen, foreign=plan.foreign)
            if plan.foreign:
                again.append(FOREIGN_SECONDS)
            else:
                if plan.leaving:
                    again.append(SOON_SECONDS)
                if not await self._writer.may_own(key, uid, plan.targets):
                    return None  # the benchmark is gone
                await self._writer.delete(plan.surplus)
                applied = await self._writer.apply(plan.targets)
                if applied.refusal:
                    again.append(REFUSED_SECONDS)
                seen = replace(self._observer.again(key, seen), refusal=applied.refusal)
            decision = decide(seen)
        elif decision.verdict is not None and decision.verdict.stalled and not decision.verdict.final:
            again.append(MISSING_SECONDS)
        after = report(seen, decision)
        if not await self._say(key, seen, after):
            return None
        if after.finished and not seen.finished:
            # It is written now: the job waits to hear that.
            again.append(0.0)
        if after.gpus:
            again.append(COUNT_SECONDS)
        return min(again) if again else None

    async def _say(self, key: Key, seen: Observed, after: LLMBenchmarkStatus) -> bool:
        """Write the status if it has changed, post what has turned. False: the benchmark is gone."""
        before = seen.manifest.get("status") or {}
        plain = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before == plain:
            return True
        if not await self._writer.write_status(key, seen.manifest, plain):
            return False
        await self._writer.tell(seen.manifest, events(known(before), after), seen.now)
        return True
