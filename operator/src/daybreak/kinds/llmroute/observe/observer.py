"""Observer of a namespace's LLMRoutes: reads the cache and the reports of gateways."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.gates.served_models import protocol
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmroute.spec import Address
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.resource import Resource
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmroute.observe.observed import (
    Observed,
    ObservedRoute,
    OwnAddress,
    ServiceName,
    keys,
    models,
    observe_route,
)
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.protocol.tallies import GatewayTally

SERVING = (LLM_SERVICES, MODEL_SERVERS, SERVE_APPLICATIONS)
"""Kinds whose models have names that lead to them. A route leads only to the first two kinds."""


class Observer:
    """Observer of LLMRoutes that reads the cache.

    Args:
        cache: Cached objects of the cluster.
        reported: Return the reports of a namespace's gateways on a route.
        ports: Allocator of gateway ports for routes with a dedicated address.
        gateway: True if this installation has gateways.
    """

    def __init__(
        self,
        cache: Cache,
        reported: Callable[[str, str], tuple[GatewayTally, ...]],
        ports: PortAllocator,
        *,
        gateway: bool,
    ) -> None:
        self._cache = cache
        self._reported = reported
        self._ports = ports
        self._gateway = gateway

    def observe(self, namespace: str) -> Observed:
        """Return the current observation of a namespace."""
        routes = sorted(
            (
                observe_route(manifest, self._reported(namespace, manifest["metadata"]["name"]))
                for manifest in self._of(LLM_ROUTES, namespace)
                if not manifest["metadata"].get("deletionTimestamp")
            ),
            key=lambda observed: observed.seniority,
        )
        routes = self._addressed(namespace, routes)
        services = {
            ServiceName(kind.kind, each["metadata"]["name"]): each
            for kind in SERVING
            for each in self._of(kind, namespace)
        }
        return Observed(
            tuple(routes),
            {name: models(service) for name, service in services.items()},
            {name: keys(service) for name, service in services.items()},
            {name: message for name, service in services.items() if (message := protocol(service))},
            self._gateway,
        )

    def _addressed(self, namespace: str, routes: list[ObservedRoute]) -> list[ObservedRoute]:
        """Return the routes with ports for dedicated addresses, and release the ports of other routes."""
        asking = {
            OwnerKey(LLM_ROUTES.kind, namespace, each.name): each
            for each in routes
            # The address that an invalid spec requests is unknown: a route keeps its port.
            if self._gateway and (each.route is None or each.route.spec.address is Address.DEDICATED)
        }
        for owner in self._ports.given(namespace):
            if owner not in asking:
                self._ports.forget(owner)
        ports = {each.name: self._ports.of(owner) for owner, each in asking.items() if each.route is not None}
        return [
            replace(each, address=OwnAddress(ports[each.name], _reserved(each.name)))
            if each.name in ports
            else each
            for each in routes
        ]

    def _of(self, kind: Resource, namespace: str) -> list[Manifest]:
        found = (self._cache.get(kind, key) for key in self._cache.keys(kind, namespace))
        return [manifest for manifest in found if manifest is not None]


def _reserved(name: str) -> str:
    """Return the conflicting Service if the route has the name of the gateway's Service; empty otherwise."""
    return f"Service/{name}" if name == names.ROUTER else ""
