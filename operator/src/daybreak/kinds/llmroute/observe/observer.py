"""Gathers everything known of a namespace's LLMRoutes: from the cache, and from what gateways tell."""

from collections.abc import Callable

from daybreak.api.common.resource import Resource
from daybreak.api.common.unstructured import Manifest
from daybreak.api.llmroute.definition import LLM_ROUTES
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gates.gateways.tallies import Told
from daybreak.kinds.llmroute.observe.observed import Observed, keys, models, seen_route
from daybreak.kube.cache import Cache


class Observer:
    """Reads the cache.

    Args:
        cache: What is known of the cluster.
        told: Says what each gateway of a namespace has told of a route.
        gateway: Whether there are gateways in this installation.
    """

    def __init__(self, cache: Cache, told: Callable[[str, str], tuple[Told, ...]], *, gateway: bool) -> None:
        self._cache = cache
        self._told = told
        self._gateway = gateway

    def observe(self, namespace: str) -> Observed:
        """What is known of this namespace at this moment."""
        routes = sorted(
            (
                seen_route(manifest, self._told(namespace, manifest["metadata"]["name"]))
                for manifest in self._of(LLM_ROUTES, namespace)
                if not manifest["metadata"].get("deletionTimestamp")
            ),
            key=lambda seen: seen.seniority,
        )
        services = {each["metadata"]["name"]: each for each in self._of(LLM_SERVICES, namespace)}
        return Observed(
            tuple(routes),
            {name: models(service) for name, service in services.items()},
            {name: keys(service) for name, service in services.items()},
            self._gateway,
        )

    def _of(self, kind: Resource, namespace: str) -> list[Manifest]:
        keys = (key for key in self._cache.keys(kind) if key.namespace == namespace)
        found = (self._cache.get(kind, key) for key in keys)
        return [manifest for manifest in found if manifest is not None]
