"""Reconciler of the router with the cache.

Each model of the namespace leads to its service, and each name of a route to the models that share it.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog

from daybreak.api.common.unstructured import at
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.schema.resource import Resource
from daybreak.gateway.desired import workloads
from daybreak.gateway.desired.gates import Claims, DesiredService, Ports, desired_state
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.router.desired_shares import desired_shares, digests
from daybreak.gateway.router.external import External
from daybreak.gateway.router.outside import ExternalResolver, Resolve, resolve
from daybreak.gateway.router.router import Route, Router
from daybreak.gateway.router.shares import Share
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey

PAUSE_SECONDS = 0.1
"""Minimum seconds between two reads of all services."""
RETRY_SECONDS = 1.0
KEYS_SECONDS = 10.0
"""Seconds between two reads of the API key files, which change without a notification."""

log = structlog.get_logger("daybreak.gateway")


def served(services: Iterable[DesiredService], ports: range) -> list[DesiredService]:
    """Return the services that own their ports, oldest first.

    Of two with the same port the older one owns it.
    """
    claims = Claims()
    claimed = [service for service in services if service.port in ports]
    for service in claimed:
        claims.put(service.name, service)
    found = [service for service in claimed if claims.holder(service.port) is service]
    return sorted(found, key=lambda service: service.seniority)


def routes(
    services: Iterable[DesiredService], ports: range, now: float = 0
) -> tuple[dict[str, Route], dict[str, tuple[str, ...]]]:
    """Return the destination of each model's requests, and the other services with a model of that name.

    Keys that have expired by `now`, in seconds since 1970, are ignored. Of two services with the same model
    the older one receives the requests, as with ports.
    """
    found: dict[str, Route] = {}
    others: dict[str, tuple[str, ...]] = {}
    for one in served(services, ports):
        for model in dict.fromkeys(one.models):
            if model in found:
                others[model] = (*others.get(model, ()), one.name)
            else:
                slot = one.front.slot
                keys = digests(slot.keys, model, now)
                found[model] = Route(one.port, one.name, keys, tuple(slot.origins))
    return found, others


class RouteKeeper:
    """Keeper of the router's destinations.

    Args:
        cache: Workloads and LLMRoutes.
        router: Router, started before `run`.
        namespace: Namespace of all services.
        ports: Ports that services can have.
        keys: Reader of API keys.
        resolve: Function that returns the addresses of a host outside the cluster.
    """

    def __init__(
        self,
        cache: Cache,
        router: Router,
        *,
        namespace: str,
        ports: range,
        keys: KeyFiles,
        resolve: Resolve = resolve,
    ) -> None:
        self._cache = cache
        self._router = router
        self._namespace = namespace
        self._ports = ports
        self._keys = keys
        self._reported: tuple[Mapping[str, Route], Sequence[Share], Sequence[External]] | None = None
        self._warned: dict[str, tuple[str, ...]] = {}
        self._wake = asyncio.Event()
        self._outside = ExternalResolver(keys, self._wake.set, resolve)
        cache.subscribe(self._changed)

    @property
    def reported(self) -> bool:
        """True if the router has received the destinations."""
        return self._reported is not None

    async def run(self) -> None:
        """Update the router until canceled."""
        try:
            while True:
                self._wake.clear()
                failed = False
                try:
                    await self._notify()
                except RuntimeApiError as error:
                    log.warning("Failed to send the locations of models to the router", error=str(error))
                    failed = True
                await asyncio.sleep(PAUSE_SECONDS)
                asks = any(at(route, "status", "externalFallback") for route in self._routes())
                keyed = asks or (
                    self._reported is not None and any(route.keys for route in self._reported[0].values())
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS if failed else KEYS_SECONDS if keyed else None):
                        await self._wake.wait()
        finally:
            await self._outside.close()

    async def _notify(self) -> None:
        if self._router.stopping:
            return
        services, now = list(self._services()), time.time()
        found, others = routes(services, self._ports, now)
        for model, names in others.items():
            if self._warned.get(model) != names:
                log.warning(
                    "Model name is in use, the older service receives its requests at the common address",
                    model=model,
                    service=found[model].service,
                    others=list(names),
                )
        self._warned = others
        externals = self._outside.externals(self._routes())
        shares = desired_shares(self._routes(), served(services, self._ports), now, externals)
        outside = list(externals.values())
        if (found, shares, outside) == self._reported:
            return
        # The router knows external addresses before any request goes there, and while requests still do.
        if outside or self._reported is None or self._reported[2]:
            await self._router.set_externals(outside)
        await self._router.set_routes(found, shares)
        self._reported = found, shares, outside

    def _services(self) -> Iterable[DesiredService]:
        for owner in workloads.owners(self._cache, self._namespace):
            try:
                manifest = workloads.workload(self._cache, owner)
                service = None
                if manifest is not None:
                    service = desired_state(manifest, (), Ports(), self._keys.keys(manifest))
            except Exception as error:  # one service must never block the others
                log.exception("Failed to read a service", service=owner.label, error=str(error))
                continue
            if service is not None:
                yield service

    def _routes(self) -> Iterable[Mapping[str, Any]]:
        for key in self._cache.keys(LLM_ROUTES):
            manifest = self._cache.get(LLM_ROUTES, key)
            if key.namespace == self._namespace and manifest is not None:
                yield manifest

    def _changed(self, resource: Resource, owner: OwnerKey) -> None:
        if resource in (*workloads.WORKLOADS, LLM_ROUTES) and owner.namespace == self._namespace:
            self._wake.set()
