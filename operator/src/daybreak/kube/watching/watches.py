"""Watches of all kinds.

Foreign kinds, such as KubeRay's, are watched as soon as the API server serves them.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from daybreak.api.common import names
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import Reflector
from daybreak.manifests.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    NODES,
    OWNED,
    PODS,
    PRIORITY_CLASSES,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    ROLE_BINDINGS,
    ROLES,
)

OURS = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
"""Selector of objects that the operator creates, and of RayClusters, which inherit a RayService's labels
through KubeRay."""
OF_SERVICES = names.OWNER_KIND_LABEL
"""Selector of the pods of Ray and of Jobs. KubeRay overwrites some labels, but keeps this one."""
KUBERAYS = (RAY_SERVICES, RAY_CLUSTERS, RAY_JOBS)
"""KubeRay's kinds."""
DISCOVERY_SECONDS = 5.0
"""Interval in seconds between checks whether missing kinds, such as KubeRay's, are served."""

log = structlog.get_logger("daybreak.watches")


async def is_served(api: Api, resource: Resource) -> bool:
    """Return True if the API server serves a kind."""
    found = await api.find(resource, f"/apis/{resource.group}/{resource.version}") or {}
    return any(item.get("name") == resource.plural for item in found.get("resources") or ())


class _Kinds:
    """Kinds of another operator, which may be installed and uninstalled at any time.

    Args:
        whose: Name of the operator that owns the kinds.
        resources: The kinds.
        needed: True if most features of Daybreak need the kinds.
    """

    def __init__(self, whose: str, resources: Sequence[Resource], *, needed: bool = False) -> None:
        self.whose = whose
        self.resources = resources
        self._needed = needed
        self.installed = False
        """True if the API server last served all of the kinds."""
        self.known = asyncio.Event()
        """Set after the first check whether the kinds are served."""

    def tell_missing(self) -> None:
        """Log that the kinds are not served."""
        served = ", ".join(f"{each.api_version} {each.kind}" for each in self.resources)
        (log.warning if self._needed else log.info)("not installed", what=self.whose, kinds=served)


class Watches:
    """The reflectors of every kind that belongs to a workload.

    Args:
        api: The API server.
        cache: Cache that the reflectors fill.
        namespaces: Namespaces to watch; all if empty.
        nodes: True to watch nodes and PriorityClasses, which are cluster-scoped.
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
        self.on_installed: Callable[[], None] = lambda: None
        """Called when the kinds of KubeRay or of LeaderWorkerSet have become available or unavailable."""
        ours = [*(each for each in OWNED if each is not RAY_SERVICES), DEPLOYMENTS, ROLES, ROLE_BINDINGS]
        self._always = [each for resource in ours for each in self._reflectors(resource, OURS)]
        self._always += self._reflectors(PODS, OF_SERVICES)
        self._always += self._reflectors(CONFIG_MAPS, name=names.GATEWAY)
        self._nodes = Reflector(api, cache, NODES) if nodes else None
        self._priority_classes = Reflector(api, cache, PRIORITY_CLASSES) if nodes else None
        self.kuberay = _Kinds("KubeRay", KUBERAYS, needed=True)
        """RayServices, RayClusters and RayJobs."""
        self.leader_worker_set = _Kinds("LeaderWorkerSet", (LEADER_WORKER_SETS,))
        """LeaderWorkerSets, which run replicas of ModelServers on several nodes."""

    @property
    def kuberay_installed(self) -> bool:
        """True if the API server last served RayServices."""
        return self.kuberay.installed

    @property
    def leader_worker_set_installed(self) -> bool:
        """True if the API server last served LeaderWorkerSets."""
        return self.leader_worker_set.installed

    @property
    def nodes_known(self) -> bool:
        """True if the operator may read nodes and has listed them."""
        return self._nodes is not None and self._nodes.permitted and self._nodes.synced.is_set()

    async def run(self, ready: asyncio.Event) -> None:
        """Watch until canceled; `ready` is set when all existing objects have been listed once."""
        of_cluster = [each for each in (self._nodes, self._priority_classes) if each is not None]
        reflectors = [*self._always, *of_cluster]
        others = (self.kuberay, self.leader_worker_set)
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            for kinds in others:
                group.create_task(self._watch_others(kinds))
            for reflector in reflectors:
                await reflector.synced.wait()
            for kinds in others:
                await kinds.known.wait()
            ready.set()

    async def _watch_others(self, kinds: "_Kinds") -> None:
        message = False
        while True:
            try:
                served = all([await is_served(self._api, kind) for kind in kinds.resources])
            except ApiError as error:
                log.warning("Failed to check which kinds are installed", what=kinds.whose, error=str(error))
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            if not served:
                if not message:
                    kinds.tell_missing()
                    message = True
                kinds.known.set()
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            await self._while_served(kinds)
            message = False

    async def _while_served(self, kinds: "_Kinds") -> None:
        """Watch kinds of another operator until one of them is no longer served."""
        reflectors = [
            each for kind in kinds.resources for each in self._reflectors(kind, OURS, optional=True)
        ]
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(reflector.run()) for reflector in reflectors]
                for reflector in reflectors:
                    await reflector.synced.wait()
                if not any(task.done() for task in running):
                    kinds.installed = True
                    log.info("Installed", what=kinds.whose)
                    kinds.known.set()
                    self.on_installed()
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in running:
                    task.cancel()
        finally:
            kinds.installed = False
        for kind in kinds.resources:
            self._cache.clear(kind)
        self.on_installed()

    def _reflectors(
        self, resource: Resource, selector: str = "", *, name: str = "", optional: bool = False
    ) -> list[Reflector]:
        """Return one reflector per namespace, or one for all namespaces."""
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
