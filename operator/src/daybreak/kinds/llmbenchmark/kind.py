"""The kind LLMBenchmark, as the operator runs it."""

from collections.abc import Callable, Collection

from daybreak.api.common import names
from daybreak.api.common.resource import Resource
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.controller.job_reports import HttpJobReporter, JobProber
from daybreak.kinds.llmbenchmark.observe.observer import Observer
from daybreak.kinds.llmbenchmark.observe.progress_reports import PATH, REPORT_LIMIT, read
from daybreak.kinds.llmbenchmark.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BENCHMARKS, PODS
from daybreak.platform import Platform
from daybreak.ray.ports import BATCH


class LLMBenchmarks:
    """Looks after every LLMBenchmark.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        platform: Settings of the installation.
        applier: Writes objects.
        enqueue: Has an LLMBenchmark reconciled.
        may_act: Whether the lease is held this moment.
    """

    name = LLM_BENCHMARKS.kind
    watched: Collection[Resource] = frozenset((LLM_BENCHMARKS, *OF_BENCHMARKS, PODS))

    def __init__(
        self,
        api: Api,
        cache: Cache,
        platform: Platform,
        applier: Applier,
        enqueue: Callable[[Key], None],
        may_act: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._prober = JobProber(HttpJobReporter(BATCH, PATH, read, REPORT_LIMIT), enqueue)
        self._reconciler = Reconciler(api, cache, Observer(cache), platform, self._prober, applier, may_act)

    def concerned(self, resource: Resource, key: Key) -> tuple[Key, float] | None:
        """At once, if it is a benchmark or belongs to one."""
        if resource is LLM_BENCHMARKS:
            return key, 0.0
        benchmark = names.benchmark_of(key.name)
        return (Key(key.namespace, benchmark), 0.0) if benchmark is not None else None

    def objects(self) -> Collection[Key]:
        """Every LLMBenchmark."""
        return self._cache.keys(LLM_BENCHMARKS)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """None: the scheduler says of a pod whether it finds a place."""
        return ()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMBenchmark."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End the questions to jobs."""
        await self._prober.close()
