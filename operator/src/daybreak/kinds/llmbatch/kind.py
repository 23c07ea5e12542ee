"""The kind LLMBatch, as the operator runs it."""

from collections.abc import Callable, Collection

from daybreak.api.common import names
from daybreak.api.common.resource import Resource
from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.controller.job_reports import HttpJobReporter, JobProber
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.turn_watch import TurnWatch
from daybreak.kinds.llmbatch.observe.observer import Observer
from daybreak.kinds.llmbatch.observe.progress_reports import PATH, read
from daybreak.kinds.llmbatch.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BATCHES, PODS
from daybreak.kube.watches import Watches
from daybreak.platform import Platform
from daybreak.ray.ports import BATCH


class LLMBatches:
    """Looks after every LLMBatch.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        watches: Fill the cache.
        platform: Settings of the installation.
        applier: Writes objects.
        nodes: Knows the nodes.
        turns: Knows whose turn it is where accelerators are scarce.
        enqueue: Has an LLMBatch reconciled.
        may_act: Whether the lease is held this moment.
    """

    name = LLM_BATCHES.kind
    watched: Collection[Resource] = frozenset((LLM_BATCHES, *OF_BATCHES, PODS))

    def __init__(
        self,
        api: Api,
        cache: Cache,
        watches: Watches,
        platform: Platform,
        applier: Applier,
        nodes: NodeWatch,
        turns: TurnWatch,
        enqueue: Callable[[Key], None],
        may_act: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._prober = JobProber(HttpJobReporter(BATCH, PATH, read), enqueue)
        self._reconciler = Reconciler(
            api, cache, Observer(cache, watches, nodes, turns), platform, self._prober, applier, may_act
        )

    def concerned(self, resource: Resource, key: Key) -> tuple[Key, float] | None:
        """At once, if it is a batch or belongs to one."""
        if resource is LLM_BATCHES:
            return key, 0.0
        batch = names.batch_of(key.name)
        return (Key(key.namespace, batch), 0.0) if batch is not None else None

    def objects(self) -> Collection[Key]:
        """Every LLMBatch."""
        return self._cache.keys(LLM_BATCHES)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """None: the scheduler says of a pod whether it finds a place."""
        return ()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMBatch."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End the questions to jobs."""
        await self._prober.close()
