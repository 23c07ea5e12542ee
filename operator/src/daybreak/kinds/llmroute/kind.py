"""The kind LLMRoute, as the operator runs it: all routes of a namespace are looked at together."""

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
"""Stands for all routes of a namespace in the queue."""


def all_of(namespace: str) -> Key:
    """What stands for all routes of a namespace in the queue."""
    return Key(namespace, ALL)


GATHER_SECONDS = 1.0
"""Over how long changes of services are gathered: statuses change often, and gateways see them anyway."""


class LLMRoutes:
    """Looks after every LLMRoute.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        platform: Settings of the installation.
        applier: Writes objects.
        reports: What gateways tell.
        may_act: Whether the lease is held this moment.
        ports: Gives out the gateways' ports for routes with an address of their own.
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
        observer = Observer(cache, reports.told, ports, gateway=bool(platform.gateway_image))
        self._reconciler = Reconciler(api, cache, observer, applier, may_act)

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """All routes of the namespace: at once for one or its own Service, soon for what serves models."""
        mine = Key(owner.namespace, ALL)
        if resource in OF_ROUTES:
            return (mine, 0.0) if owner.kind == self.name else None
        if resource is LLM_ROUTES:
            return mine, 0.0
        return (mine, GATHER_SECONDS) if self._cache.has_any(LLM_ROUTES, owner.namespace) else None

    def objects(self) -> Collection[Key]:
        """One for every namespace with an LLMRoute."""
        return {Key(key.namespace, ALL) for key in self._cache.keys(LLM_ROUTES)}

    async def concerned_by_nodes(self) -> Collection[Key]:
        """None: what nodes mean to a service stands in its status."""
        return ()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Look at all routes of a namespace."""
        return await self._reconciler.reconcile(key.namespace)

    async def close(self) -> None:
        """Nothing runs beside the reconciles."""
