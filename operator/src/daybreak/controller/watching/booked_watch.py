"""Resources that pods of all workloads use on nodes, updated with each change of a pod."""

from collections.abc import Mapping
from decimal import Decimal

from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import PODS
from daybreak.ray.views.ray_pods import pod_views, requests_by_node
from daybreak.scheduling.room import Booked


class BookedWatch:
    """Sums the resources of the cache's pods; each call reads only pods that have changed.

    A new default of an installation can make thousands of workloads read the sums at the same time. Otherwise
    each of them would read all pods.

    Args:
        cache: State of the cluster.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._of: dict[OwnerKey, Mapping[str, Mapping[str, Decimal]]] = {}
        """Resources that the pods of each owner use."""
        self._sums: dict[str, dict[str, Decimal]] = {}
        self._changed = set(cache.owners(PODS))
        """Owners whose pods have changed since the last read."""
        cache.subscribe(self._note)

    def booked(self) -> Booked:
        """Return a copy of the resources that pods currently use on each node."""
        for owner in self._changed:
            self._add(self._of.pop(owner, {}), -1)
            if now := requests_by_node(pod_views(self._cache.owned_by(owner, PODS))):
                self._of[owner] = now
                self._add(now, 1)
        self._changed.clear()
        return {node: dict(taken) for node, taken in self._sums.items()}

    def _note(self, resource: Resource, owner: OwnerKey) -> None:
        if resource is PODS:
            self._changed.add(owner)

    def _add(self, booked: Booked, sign: int) -> None:
        for node, amounts in booked.items():
            sums = self._sums.setdefault(node, {})
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, Decimal(0)) + sign * amount
                if not sums[resource]:
                    del sums[resource]
            if not sums:
                del self._sums[node]
