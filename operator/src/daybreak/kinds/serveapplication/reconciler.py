"""Reconcile of a ServeApplication: the parts that differ from other workloads."""

from collections.abc import Sequence
from typing import Any

from daybreak.controller.again import SOON_SECONDS
from daybreak.controller.parts import Parts
from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.decide.plan import make_plan, objects
from daybreak.kinds.serveapplication.decide.ray_clusters import (
    finished_clusters,
    redundant_cluster,
    replaced_clusters,
)
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.functions import FUNCTIONS, view_of
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.observe.observer import Observer
from daybreak.loop import reconciler
from daybreak.manifests.plan import Live, Plan
from daybreak.manifests.resources import OF_APPLICATIONS


class Reconciler(reconciler.Reconciler[Observed, View, Plan]):
    """Reconciler that applies a ServeApplication to the cluster and reports the result.

    Args:
        parts: Dependencies of every kind.
        observer: Observer of applications.
    """

    def __init__(self, parts: Parts, observer: Observer) -> None:
        super().__init__(parts, observer, FUNCTIONS, OF_APPLICATIONS)

    def objects(self, observed: Observed) -> Sequence[dict[str, Any]]:
        """Return the desired objects of an application."""
        return objects(view_of(observed), self._platform)

    def plan(self, observed: Observed, desired: Sequence[dict[str, Any]], live: Live) -> Plan:
        """Return the plan that changes the live objects into the desired ones."""
        return make_plan(view_of(observed), desired, live)

    async def carry_on(self, observed: Observed, plan: Plan) -> Sequence[float]:
        """Set the bounds of worker groups in the running RayCluster, and delete unneeded RayClusters."""
        view = view_of(observed)
        again = await self._writer.set_bounds(observed.ray_clusters, cluster_bounds(view))
        if observed.ray_service is not None and (pending := redundant_cluster(view)):
            again += await self._writer.call_off(observed.ray_service, pending)
        replaced, more = replaced_clusters(view)
        over = {each["metadata"]["name"]: each for each in (*replaced, *finished_clusters(view))}
        again += await self._writer.delete_clusters(over.values())
        return [*again, SOON_SECONDS] if more else again
