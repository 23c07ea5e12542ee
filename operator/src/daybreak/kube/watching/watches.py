"""Everything that is watched; kinds of others, such as KubeRay's, as soon as the API server serves them."""

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
"""Selects what the operator makes, and the RayClusters that inherit a RayService's labels from KubeRay."""
OF_SERVICES = names.OWNER_KIND_LABEL
"""Selects the pods of Ray and of Jobs: KubeRay writes its own value into some labels, but leaves this one."""
KUBERAYS = (RAY_SERVICES, RAY_CLUSTERS, RAY_JOBS)
"""KubeRay's kinds."""
DISCOVERY_SECONDS = 5.0
"""How often it is asked whether KubeRay is there, while it is not; and the others."""

log = structlog.get_logger("daybreak.watches")


async def is_served(api: Api, resource: Resource) -> bool:
    """Whether the API server serves a kind."""
    found = await api.find(resource, f"/apis/{resource.group}/{resource.version}") or {}
    return any(item.get("name") == resource.plural for item in found.get("resources") or ())


class _Kinds:
    """Kinds that somebody else's operator brings, which may come and go.

    Args:
        whose: Whose they are.
        resources: The kinds.
        needed: Whether most of what the operator does needs them.
    """

    def __init__(self, whose: str, resources: Sequence[Resource], *, needed: bool = False) -> None:
        self.whose = whose
        self.resources = resources
        self._needed = needed
        self.installed = False
        """Whether the API server serves all of them, as last seen."""
        self.known = asyncio.Event()
        """Set as soon as that has been looked for."""

    def tell_missing(self) -> None:
        """Say that they are not served."""
        served = ", ".join(f"{each.api_version} {each.kind}" for each in self.resources)
        (log.warning if self._needed else log.info)("not installed", what=self.whose, kinds=served)


class Watches:
    """The reflectors of every kind that belongs to a workload.

    Args:
        api: The API server.
        cache: What they fill.
        namespaces: Only these namespaces; none means all.
        nodes: Whether nodes are watched, and PriorityClasses, which belong to the cluster.
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
        """Called when the kinds of KubeRay or of LeaderWorkerSet have come or gone."""
        ours = [*(each for each in OWNED if each is not RAY_SERVICES), DEPLOYMENTS, ROLES, ROLE_BINDINGS]
        self._always = [each for resource in ours for each in self._reflectors(resource, OURS)]
        self._always += self._reflectors(PODS, OF_SERVICES)
        self._always += self._reflectors(CONFIG_MAPS, name=names.GATEWAY)
        self._nodes = Reflector(api, cache, NODES) if nodes else None
        self._priority_classes = Reflector(api, cache, PRIORITY_CLASSES) if nodes else None
        self.kuberay = _Kinds("KubeRay", KUBERAYS, needed=True)
        """RayServices and what belongs to them."""
        self.leader_worker_set = _Kinds("LeaderWorkerSet", (LEADER_WORKER_SETS,))
        """What replicas of ModelServers on several nodes are made of."""

    @property
    def kuberay_installed(self) -> bool:
        """Whether the API server serves RayServices, as last seen."""
        return self.kuberay.installed

    @property
    def leader_worker_set_installed(self) -> bool:
        """Whether it serves LeaderWorkerSets, as last seen."""
        return self.leader_worker_set.installed

    @property
    def nodes_known(self) -> bool:
        """Whether the operator may see nodes, and has."""
        return self._nodes is not None and self._nodes.permitted and self._nodes.synced.is_set()

    async def run(self, ready: asyncio.Event) -> None:
        """Watch until cancelled; `ready` is set when everything that is there has been listed once."""
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
        said = False
        while True:
            try:
                served = all([await is_served(self._api, kind) for kind in kinds.resources])
            except ApiError as error:
                log.warning("cannot see what is installed", what=kinds.whose, error=str(error))
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            if not served:
                if not said:
                    kinds.tell_missing()
                    said = True
                kinds.known.set()
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            await self._while_served(kinds)
            said = False

    async def _while_served(self, kinds: "_Kinds") -> None:
        """Watch kinds of others until one of them is not served any more."""
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
                    log.info("installed", what=kinds.whose)
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
