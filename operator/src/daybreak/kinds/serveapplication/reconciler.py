"""The reconcile of a ServeApplication, as far as it is not that of any workload with one gate."""

from collections.abc import Callable

from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.controller.again import SOON_SECONDS
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.plan import Plan
from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.decide.decision import Decision, decide, view_of
from daybreak.kinds.serveapplication.decide.ray_clusters import (
    finished_clusters,
    needless,
    replaced_clusters,
)
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.observe.observer import Observer
from daybreak.kinds.serveapplication.plan import make_plan
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_APPLICATIONS
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.platform import Platform
from daybreak.workloads import reconciler


class Reconciler(reconciler.Reconciler[Observed, ServeApplicationStatus]):
    """Makes the cluster what a ServeApplication says, and says what came of it.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        platform: Settings of the installation.
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
        applier: Applier,
        others: OtherPods,
        may_act: Callable[[], bool],
    ) -> None:
        super().__init__(api, cache, observer, OF_APPLICATIONS, applier, others, may_act)
        self._api = api
        self._cache = cache
        self._platform = platform

    def decide(self, seen: Observed) -> Decision:
        """What to do about it."""
        return decide(seen)

    def to_carry_out(self, seen: Observed, decision: Decision) -> bool:
        """Whether it has just been decided that it is built of another revision than this look was of."""
        state, built = decision.status.rollout, seen.history.built if seen.history is not None else None
        if state is None or built is None or state.revision == built.name:
            return False
        # What was decided before counts only once: one that cannot be built is never, whatever stands there.
        before = seen.history.state if seen.history is not None else None
        return before is None or state.revision != before.revision

    async def plan(self, seen: Observed) -> Plan:
        """What its objects should be."""
        return await make_plan(view_of(seen), self._platform, self._cache, self._applier)

    async def applied(self, seen: Observed) -> list[float]:
        """Carry the bounds of worker groups into the RayCluster that runs; end those that nobody needs."""
        view = view_of(seen)
        again = await self._writer.set_bounds(seen.ray_clusters, cluster_bounds(view))
        if seen.ray_service is not None and (pending := needless(view)):
            again += await self._writer.call_off(seen.ray_service, pending)
        replaced, more = replaced_clusters(view)
        over = {each["metadata"]["name"]: each for each in (*replaced, *finished_clusters(view))}
        again += await self._writer.delete_clusters(over.values())
        return [*again, SOON_SECONDS] if more else again
