"""The gateway of a namespace: there as long as the namespace has a workload that stands behind it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.schema.resource import Resource
from daybreak.controller import metrics
from daybreak.controller.kind import LeaseLost
from daybreak.gates.gateway_rejected import rejection
from daybreak.gateways.needs import GatewayNeeds, needs, together
from daybreak.gateways.objects import gateway
from daybreak.gateways.reports import GatewayReports
from daybreak.gateways.settings import InvalidGatewaySettings, of_namespace
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier, Occupied
from daybreak.kube.writing.status import emit
from daybreak.manifests.keys import Key, OwnerKey, gateway_key, key_of
from daybreak.manifests.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    OF_GATEWAYS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    of,
)
from daybreak.platform import Platform

log = structlog.get_logger("daybreak.gateways")

AGAIN_SECONDS = 15.0
"""When to look again at an object whose name somebody else has taken."""
GATHER_SECONDS = 1.0
"""Over how long the coming and going of workloads is gathered before a namespace's gateway is looked at."""
UNTOLD_SECONDS = 2.0
"""When to look again at the gateway of workloads that the watch has not told of yet."""

LEAVING_SECONDS = 2.0
"""When to look again at a gateway that goes."""
NEEDED_TO_THE_END = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES)
"""What a gateway's pods need as long as they run."""


class GatewayController:
    """Makes and removes gateways: one in each namespace that has a workload, or none in any.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        workloads: The kinds that stand behind gateways.
        applier: Writes objects.
        platform: Settings of the installation.
        reports: Listens to the gateways that are there.
        may_act: Whether the lease is held this moment.
        routes: The kinds that gateways read beside workloads.
    """

    name = "Gateway"

    def __init__(
        self,
        api: Api,
        cache: Cache,
        workloads: Collection[Resource],
        applier: Applier,
        platform: Platform,
        reports: GatewayReports | None = None,
        may_act: Callable[[], bool] = lambda: True,
        *,
        routes: Collection[Resource] = (),
    ) -> None:
        self._api = api
        self._cache = cache
        self._workloads = workloads
        self._routes = routes
        self._applier = applier
        self._platform = platform
        self._reports = reports
        self._may_act = may_act
        self._needs = GatewayNeeds(cache)
        self._refused: dict[str, tuple[str, str]] = {}
        """What was said last of settings that cannot be taken, with the ConfigMap's uid, by namespace."""
        self._short: dict[str, frozenset[str]] = {}
        """The uids of pods of which it was said that they are nearly full, by namespace."""
        self._unenforced: set[str] = set()
        """Namespaces with an event that NetworkPolicies are not enforced."""
        self._rejected: dict[str, str] = {}
        """Why the API server rejects pods of gateways, by namespace."""
        self.watched: Collection[Resource] = frozenset((*workloads, *routes, *OF_GATEWAYS, PODS, CONFIG_MAPS))

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """The gateway of the namespace: it comes with the first workload, and goes with the last one."""
        mine = gateway_key(owner.namespace).key
        if resource in self._workloads or resource in self._routes:
            return mine, GATHER_SECONDS
        if owner != gateway_key(owner.namespace):
            return None
        if resource is PODS:
            again = self._reports.refresh(owner.namespace) if self._reports is not None else None
            return None if again is None else (mine, again)
        return mine, 0.0

    def objects(self) -> Collection[Key]:
        """The gateway of every namespace with a workload."""
        return {gateway_key(key.namespace).key for kind in self._workloads for key in self._cache.keys(kind)}

    async def concerned_by_nodes(self) -> Collection[Key]:
        """None: where gateways run is the scheduler's business."""
        return ()

    async def settle(self) -> None:
        """Hear those gateways that are there, before anything is judged."""
        if self._reports is not None:
            await self._reports.settle()

    async def close(self) -> None:
        """Stop listening."""
        if self._reports is not None:
            await self._reports.close()

    async def reconcile(self, key: Key) -> float | None:
        """Make the namespace's gateway what it should be. Returns when to look again, in seconds."""
        if not self._may_act():
            raise LeaseLost
        namespace = key.namespace
        again = self._reports.refresh(namespace) if self._reports is not None else None
        await self._say_short(namespace)
        await self._say_unenforced(namespace)
        self._note_rejection(namespace)
        there = [
            live
            for resource in OF_GATEWAYS
            for live in self._cache.owned_by(gateway_key(namespace), resource)
        ]
        if not self._platform.gateway_image:
            return await self._remove(namespace, there, again)
        needed = any(self._cache.has_any(kind, namespace) for kind in self._workloads)
        # A new operator may know the gateway before it knows the workloads: only the API server can say
        # that there are none. If there are, the gateway stays as it is until they are known: what they need
        # of it, such as Secrets, is not known either.
        if not needed and there and await self._has_services(namespace):
            return UNTOLD_SECONDS
        secrets = await self._secrets(namespace) if needed else frozenset[str]()
        said = self._cache.get(CONFIG_MAPS, Key(namespace, names.GATEWAY)) if needed else None
        platform, refusal = _settings(self._platform, said)
        outside = self._needs.of(namespace, self._routes).ports
        wanted = (
            gateway(namespace, self._workloads, platform, secrets, self._routes, outside) if needed else []
        )
        for manifest in wanted:
            live = self._cache.get(of(manifest), key_of(manifest))
            if refusal and live is not None and of(manifest) is DEPLOYMENTS:
                continue  # it stays as it is: an error in writing is no reason to move every pod
            try:
                if await self._applier.apply(manifest, live):
                    metrics.WRITES.labels(manifest["kind"]).inc()
            except Occupied:
                # Made by us a moment ago, and the watch has not told yet; or somebody else's, which stays.
                again = min(AGAIN_SECONDS, again or AGAIN_SECONDS)
            except ApiError as error:
                if not (error.refused and said is not None and of(manifest) is DEPLOYMENTS):
                    raise
                refusal = error.message
        await self._say(namespace, said, refusal)
        kept = {(of(manifest), key_of(manifest)) for manifest in wanted}
        for live in there:
            if (of(live), key_of(live)) not in kept and not live["metadata"].get("deletionTimestamp"):
                await self._applier.delete(live)
                metrics.WRITES.labels(live["kind"]).inc()
        return again

    async def _say(self, namespace: str, said: Manifest | None, refusal: str) -> None:
        """Post an event about settings that cannot be taken, once for each that is wrong with them."""
        if said is None or not refusal:
            self._refused.pop(namespace, None)
            return
        told = said["metadata"]["uid"], refusal
        if self._refused.get(namespace) == told:
            return
        self._refused[namespace] = told
        log.warning("settings of a gateway are not taken", namespace=namespace, why=refusal)
        await emit(
            self._api,
            CONFIG_MAPS,
            said,
            warning=True,
            reason="InvalidGatewaySettings",
            action="Configure",
            note=f"The gateway stays as it is: {refusal}",
            now=datetime.now(UTC),
        )

    async def _say_short(self, namespace: str) -> None:
        """Post an event about each pod that is nearly full, once for each time that it becomes so."""
        short = self._reports.short(namespace) if self._reports is not None else frozenset[str]()
        news = short - self._short.get(namespace, frozenset())
        for pod in self._cache.owned_by(gateway_key(namespace), PODS) if news else ():
            if pod["metadata"]["uid"] in news:
                await emit(
                    self._api,
                    PODS,
                    pod,
                    warning=True,
                    reason="NearlyFull",
                    action="Serve",
                    note="The gateway has little left of its connections or its memory: clients with many "
                    "connections get no more. Raise gateway.replicas, or the memory in gateway.resources.",
                    now=datetime.now(UTC),
                )
        self._short[namespace] = short

    async def _say_unenforced(self, namespace: str) -> None:
        """Post an event if NetworkPolicies are not enforced, once while the namespace has a gateway.

        A connection proves it. Silence afterwards disproves nothing: a busy Ray head is silent as well.
        """
        deployment = self._cache.get(DEPLOYMENTS, Key(namespace, names.GATEWAY))
        if deployment is None:
            self._unenforced.discard(namespace)
            return
        enforced = self._reports.enforced(namespace) if self._reports is not None else None
        wanted = self._platform.network_policy
        if not wanted or enforced is not False or namespace in self._unenforced:
            return
        self._unenforced.add(namespace)
        log.warning("NetworkPolicies are not enforced", namespace=namespace)
        await emit(
            self._api,
            DEPLOYMENTS,
            deployment,
            warning=True,
            reason="NetworkPoliciesNotEnforced",
            action="Serve",
            note="A gateway reached port 8265 of a Ray head, which NetworkPolicies forbid it. Any pod "
            "of the cluster can reach models without an API key. Use a network plugin that enforces them.",
            now=datetime.now(UTC),
        )

    def _note_rejection(self, namespace: str) -> None:
        """Have workloads reconciled if the API server rejects the gateway's pods, or does so no longer."""
        rejected = rejection(self._cache.get(DEPLOYMENTS, Key(namespace, names.GATEWAY)))
        if rejected == self._rejected.get(namespace, ""):
            return
        self._rejected[namespace] = rejected
        if not rejected:
            del self._rejected[namespace]
        if self._reports is not None:
            self._reports.tell(namespace)

    async def _remove(self, namespace: str, there: Sequence[Manifest], again: float | None) -> float | None:
        """Take the gateway away, as gateways are switched off.

        Services are led past it first, each when what is behind it answers. Its pods finish what they hold
        and stream, and keep what they need for that until they are gone.
        """
        if any(_leads_here(front) for front in self._fronts(namespace)):
            return LEAVING_SECONDS if there else again
        runs = self._reports is not None and self._reports.runs(namespace)
        for live in there:
            needed = runs and of(live) in NEEDED_TO_THE_END
            if _is_ours(live) and not needed and not live["metadata"].get("deletionTimestamp"):
                await self._applier.delete(live)
                metrics.WRITES.labels(live["kind"]).inc()
        if self._reports is not None and not self._reports.remains(namespace):
            self._reports.tell(namespace)
        return LEAVING_SECONDS if there else again

    def _fronts(self, namespace: str) -> Iterator[Manifest | None]:
        """The addresses of the namespace's workloads, also of those that are being deleted."""
        for key in self._cache.keys(SERVICES, namespace):
            yield self._cache.get(SERVICES, key)

    async def _secrets(self, namespace: str) -> frozenset[str]:
        """Names of the Secrets with API keys that the gateway shall have.

        What it has is taken from it only when the API server says that no service needs it: a new operator
        may know some workloads of the namespace before the others.
        """
        kinds = (*self._workloads, *self._routes)
        needed = self._needs.of(namespace, kinds).secrets
        deployment = self._cache.get(DEPLOYMENTS, Key(namespace, names.GATEWAY))
        if _mounted(deployment) <= needed | {names.SHARED_KEYS}:
            return needed
        for kind in kinds:
            found = await self._api.request("list", kind, kind.path(namespace))
            needed |= together(needs(each) for each in mappings(found.get("items"))).secrets
        return needed

    async def _has_services(self, namespace: str) -> bool:
        for kind in self._workloads:
            found = await self._api.request("list", kind, kind.path(namespace), query={"limit": "1"})
            if found.get("items"):
                return True
        return False


def _settings(platform: Platform, said: Manifest | None) -> tuple[Platform, str]:
    """The installation's settings with those of a namespace, and why these are not taken; empty: they are."""
    try:
        return of_namespace(platform, said), ""
    except InvalidGatewaySettings as error:
        return platform, str(error)


def _leads_here(service: Manifest | None) -> bool:
    """Whether a workload's address leads to the gateway."""
    of_a_service = bool(names.labelled_owner(at(service, "metadata", "labels")))
    return of_a_service and at(service, "spec", "selector") == names.gateway_selector()


def _is_ours(live: Manifest) -> bool:
    """Whether it is one of the objects that a gateway is made of, by its name and its labels."""
    metadata = live["metadata"]
    name = names.ROUTER if of(live) is SERVICES else names.GATEWAY
    ours = names.gateway_labels().items() <= mapping(metadata.get("labels")).items()
    return ours and bool(metadata["name"] == name)


def _mounted(deployment: Mapping[str, Any] | None) -> set[str]:
    """Names of the Secrets that the gateway's pods have as folders of their own."""
    volumes = mappings(at(deployment, "spec", "template", "spec").get("volumes"))
    return {name for volume in volumes if (name := text(mapping(volume.get("secret")).get("secretName")))}
