"""Controller of LLMRoutes, as the operator runs it: it reconciles all routes of a namespace together."""

from collections.abc import Callable, Collection

from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.schema.resource import Resource
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.gateways.reports import GatewayReports
from daybreak.kinds.llmroute.observe.observer import SERVING, Observer
from daybreak.kinds.llmroute.reconciler import Reconciler
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import OF_ROUTES
from daybreak.platform import Platform

ALL = "routes"
"""Name that identifies all routes of a namespace in the work queue."""


def all_of(namespace: str) -> Key:
    """Return the key that identifies all routes of a namespace in the work queue."""
    return Key(namespace, ALL)


GATHER_SECONDS = 1.0
"""Time in seconds during which changes of services are gathered. Statuses change often, and gateways receive
them directly."""


class LLMRoutes:
    """Controller of all LLMRoutes.

    Args:
        api: The API server.
        cache: Cached objects of the cluster.
        platform: Settings of the installation.
        applier: Writer of owned objects.
        reports: Reports of the gateways.
        may_act: Return True while the operator holds the lease.
        ports: Allocator of gateway ports for routes with a dedicated address.
    """

    name = LLM_ROUTES.kind
    watched: Collection[Resource] = frozenset((LLM_ROUTES, *SERVING, *OF_ROUTES))

    def __init__(
        self,
        api: Api,
        cache: Cache,
        platform: Platform,
        applier: Applier,
        reports: GatewayReports,
        may_act: Callable[[], bool],
        ports: PortAllocator,
    ) -> None:
        self._cache = cache
        observer = Observer(cache, reports.reported, ports, gateway=bool(platform.gateway_image))
        self._reconciler = Reconciler(api, cache, observer, applier, may_act)

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """Return the key of the namespace's routes and the delay of their reconcile, or None.

        A change of a route or its Service is reconciled at once, a change of an object that serves models
        after `GATHER_SECONDS`. None means that the change concerns no route.
        """
        mine = Key(owner.namespace, ALL)
        if resource in OF_ROUTES:
            return (mine, 0.0) if owner.kind == self.name else None
        if resource is LLM_ROUTES:
            return mine, 0.0
        return (mine, GATHER_SECONDS) if self._cache.has_any(LLM_ROUTES, owner.namespace) else None

    def objects(self) -> Collection[Key]:
        """Return one key for each namespace with an LLMRoute."""
        return {Key(key.namespace, ALL) for key in self._cache.keys(LLM_ROUTES)}

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Return no keys: the status of a service reports the effect of nodes."""
        return ()

    async def settle(self) -> None:
        """Wait for nothing."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile all routes of a namespace."""
        return await self._reconciler.reconcile(key.namespace)

    async def close(self) -> None:
        """Close nothing: the controller has no background tasks."""
