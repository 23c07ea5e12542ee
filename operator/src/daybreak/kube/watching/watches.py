"""Everything that is watched, KubeRay's kinds as soon as the API server serves them."""

import asyncio
from collections.abc import Callable, Collection

import structlog

from daybreak.api.common import names
from daybreak.api.common.resource import Resource
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    OWNED,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    ROLE_BINDINGS,
    ROLES,
)
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import Reflector

OURS = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
"""Selects what the operator makes, and the RayClusters that inherit a RayService's labels from KubeRay."""
OF_SERVICES = names.SERVICE_LABEL
"""Selects the pods of Ray and of Jobs: KubeRay writes its own value into some labels, but leaves this one."""
KUBERAYS = (RAY_SERVICES, RAY_CLUSTERS, RAY_JOBS)
"""KubeRay's kinds."""
DISCOVERY_SECONDS = 5.0
"""How often it is asked whether KubeRay is there, while it is not."""

log = structlog.get_logger("daybreak.watches")


async def is_served(api: Api, resource: Resource) -> bool:
    """Whether the API server serves a kind."""
    found = await api.find(resource, f"/apis/{resource.group}/{resource.version}") or {}
    return any(item.get("name") == resource.plural for item in found.get("resources") or ())


class Watches:
    """The reflectors of every kind that belongs to an LLMService.

    Args:
        api: The API server.
        cache: What they fill.
        namespaces: Only these namespaces; none means all.
        nodes: Whether nodes are watched, which belong to the cluster.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        *,
        namespaces: Collection[str],
        nodes: bool,
    ) -> None:
        self._api = api
        self._cache = cache
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self.on_kuberay: Callable[[], None] = lambda: None
        """Called when KubeRay's kinds have come or gone."""
        ours = [*(each for each in OWNED if each is not RAY_SERVICES), DEPLOYMENTS, ROLES, ROLE_BINDINGS]
        self._always = [each for resource in ours for each in self._reflectors(resource, OURS)]
        self._always += self._reflectors(PODS, OF_SERVICES)
        self._always += self._reflectors(CONFIG_MAPS, name=names.GATEWAY)
        self._nodes = Reflector(api, cache, NODES) if nodes else None
        self.kuberay_installed = False
        """Whether the API server serves RayServices, as last seen."""

    @property
    def nodes_known(self) -> bool:
        """Whether the operator may see nodes, and has."""
        return self._nodes is not None and self._nodes.permitted and self._nodes.synced.is_set()

    async def run(self, ready: asyncio.Event) -> None:
        """Watch until cancelled; `ready` is set when everything that is there has been listed once."""
        reflectors = [*self._always, *([self._nodes] if self._nodes else [])]
        kuberay_known = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            group.create_task(self._watch_kuberay(kuberay_known))
            for reflector in reflectors:
                await reflector.synced.wait()
            await kuberay_known.wait()
            ready.set()

    async def _watch_kuberay(self, known: asyncio.Event) -> None:
        said = False
        while True:
            try:
                served = all([await is_served(self._api, kind) for kind in KUBERAYS])
            except ApiError as error:
                log.warning("cannot see whether KubeRay is installed", error=str(error))
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            if not served:
                if not said:
                    log.warning(
                        "KubeRay is not installed: the API server does not serve ray.io/v1 RayServices"
                    )
                    said = True
                known.set()
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            await self._while_served(known)
            said = False

    async def _while_served(self, known: asyncio.Event) -> None:
        """Watch KubeRay's kinds until one of them is not served any more."""
        reflectors = [each for kind in KUBERAYS for each in self._reflectors(kind, OURS, optional=True)]
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(reflector.run()) for reflector in reflectors]
                for reflector in reflectors:
                    await reflector.synced.wait()
                if not any(task.done() for task in running):
                    self.kuberay_installed = True
                    log.info("KubeRay is installed")
                    known.set()
                    self.on_kuberay()
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in running:
                    task.cancel()
        finally:
            self.kuberay_installed = False
        for kind in KUBERAYS:
            self._cache.clear(kind)
        self.on_kuberay()

    def _reflectors(
        self, resource: Resource, selector: str = "", *, name: str = "", optional: bool = False
    ) -> list[Reflector]:
        """One for each namespace, or one for all of them."""
        return [
            Reflector(
                self._api,
                self._cache,
                resource,
                namespace=namespace,
                selector=selector,
                name=name,
                optional=optional,
            )
            for namespace in self._namespaces
        ]
