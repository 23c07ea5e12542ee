"""Controller of gateways: a namespace has a gateway while it has a workload behind it."""

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
"""Requeue delay in seconds if another owner has taken an object's name."""
GATHER_SECONDS = 1.0
"""Time in seconds over which created and deleted workloads are collected before their gateway is
reconciled."""
UNTOLD_SECONDS = 2.0
"""Requeue delay in seconds of a gateway with workloads that the watch has not reported yet."""

LEAVING_SECONDS = 2.0
"""Requeue delay in seconds of a gateway in deletion."""
NEEDED_TO_THE_END = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES)
"""Objects that a gateway's pods need while they run."""


class GatewayController:
    """Creates and deletes gateways: one in each namespace with a workload, or none if they are disabled.

    Args:
        api: The API server.
        cache: State of the cluster.
        workloads: Kinds of workloads behind gateways.
        applier: Writes objects.
        platform: Settings of the installation.
        reports: Receives reports of running gateways.
        may_act: Returns True if the lease is currently held.
        routes: Kinds that gateways read in addition to workloads.
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
        """UID of the ConfigMap and last reported message about its invalid settings, by namespace."""
        self._short: dict[str, frozenset[str]] = {}
        """UIDs of pods that were reported as nearly full, by namespace."""
        self._unenforced: set[str] = set()
        """Namespaces with an event that NetworkPolicies are not enforced."""
        self._rejected: dict[str, str] = {}
        """Message of the API server that rejects pods of gateways, by namespace."""
        self.watched: Collection[Resource] = frozenset((*workloads, *routes, *OF_GATEWAYS, PODS, CONFIG_MAPS))

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """Return the gateway of the namespace, which exists from the first to the last workload."""
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
        """Return the gateway of every namespace with a workload."""
        return {gateway_key(key.namespace).key for kind in self._workloads for key in self._cache.keys(kind)}

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Return no gateways: the scheduler alone decides on which nodes they run."""
        return ()

    async def settle(self) -> None:
        """Receive the reports of existing gateways before the first reconcile."""
        if self._reports is not None:
            await self._reports.settle()

    async def close(self) -> None:
        """Stop receiving reports."""
        if self._reports is not None:
            await self._reports.close()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile the namespace's gateway. Return the requeue delay in seconds."""
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
        # A new operator may know the gateway before it knows the workloads: only the API server knows that
        # there are none. If there are workloads, the gateway stays unchanged until they are known, because
        # their needs, such as Secrets, are unknown as well.
        if not needed and there and await self._has_services(namespace):
            return UNTOLD_SECONDS
        secrets = await self._secrets(namespace) if needed else frozenset[str]()
        message = self._cache.get(CONFIG_MAPS, Key(namespace, names.GATEWAY)) if needed else None
        platform, refusal = _settings(self._platform, message)
        outside = self._needs.of(namespace, self._routes).ports
        desired = (
            gateway(namespace, self._workloads, platform, secrets, self._routes, outside) if needed else []
        )
        for manifest in desired:
            live = self._cache.get(of(manifest), key_of(manifest))
            if refusal and live is not None and of(manifest) is DEPLOYMENTS:
                continue  # it stays unchanged: invalid settings are no reason to replace every pod
            try:
                if await self._applier.apply(manifest, live):
                    metrics.WRITES.labels(manifest["kind"]).inc()
            except Occupied:
                # Daybreak created the object a moment ago and the watch has not reported it yet, or it has
                # another owner.
                again = min(AGAIN_SECONDS, again or AGAIN_SECONDS)
            except ApiError as error:
                if not (error.refused and message is not None and of(manifest) is DEPLOYMENTS):
                    raise
                refusal = error.message
        await self._write(namespace, message, refusal)
        kept = {(of(manifest), key_of(manifest)) for manifest in desired}
        for live in there:
            if (of(live), key_of(live)) not in kept and not live["metadata"].get("deletionTimestamp"):
                await self._applier.delete(live)
                metrics.WRITES.labels(live["kind"]).inc()
        return again

    async def _write(self, namespace: str, report: Manifest | None, refusal: str) -> None:
        """Post an event about invalid settings, once per error."""
        if report is None or not refusal:
            self._refused.pop(namespace, None)
            return
        reported = report["metadata"]["uid"], refusal
        if self._refused.get(namespace) == reported:
            return
        self._refused[namespace] = reported
        log.warning("Rejected the settings of a gateway", namespace=namespace, why=refusal)
        await emit(
            self._api,
            CONFIG_MAPS,
            report,
            warning=True,
            reason="InvalidGatewaySettings",
            action="Configure",
            note=f"The gateway stays as it is: {refusal}",
            now=datetime.now(UTC),
        )

    async def _say_short(self, namespace: str) -> None:
        """Post an event about each pod that becomes nearly full."""
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

        A connection proves missing enforcement. Later silence disproves nothing, because a busy Ray head is
        silent as well.
        """
        deployment = self._cache.get(DEPLOYMENTS, Key(namespace, names.GATEWAY))
        if deployment is None:
            self._unenforced.discard(namespace)
            return
        enforced = self._reports.enforced(namespace) if self._reports is not None else None
        desired = self._platform.network_policy
        if not desired or enforced is not False or namespace in self._unenforced:
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
        """Reconcile workloads when the API server starts or stops to reject the gateway's pods."""
        rejected = rejection(self._cache.get(DEPLOYMENTS, Key(namespace, names.GATEWAY)))
        if rejected == self._rejected.get(namespace, ""):
            return
        self._rejected[namespace] = rejected
        if not rejected:
            del self._rejected[namespace]
        if self._reports is not None:
            self._reports.notify(namespace)

    async def _remove(self, namespace: str, there: Sequence[Manifest], again: float | None) -> float | None:
        """Remove the gateway after gateways have been disabled.

        First, the Service of each workload switches from the gateway to the pods behind it, as soon as they
        answer. The gateway's pods finish held and streaming requests, and keep the objects that they need for
        that until they are gone.
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
            self._reports.notify(namespace)
        return LEAVING_SECONDS if there else again

    def _fronts(self, namespace: str) -> Iterator[Manifest | None]:
        """Yield the Services of the namespace's workloads, including workloads in deletion."""
        for key in self._cache.keys(SERVICES, namespace):
            yield self._cache.get(SERVICES, key)

    async def _secrets(self, namespace: str) -> frozenset[str]:
        """Return the names of the Secrets with API keys for the gateway.

        A new operator may know some workloads of the namespace before the others. Therefore a mounted Secret
        is removed only after the API server has shown that no service needs it.
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


def _settings(platform: Platform, report: Manifest | None) -> tuple[Platform, str]:
    """Merge the settings of a namespace into those of the installation.

    Return also the error, empty if there is none.
    """
    try:
        return of_namespace(platform, report), ""
    except InvalidGatewaySettings as error:
        return platform, str(error)


def _leads_here(service: Manifest | None) -> bool:
    """Return True if a workload's Service selects the gateway."""
    of_a_service = bool(names.labelled_owner(at(service, "metadata", "labels")))
    return of_a_service and at(service, "spec", "selector") == names.gateway_selector()


def _is_ours(live: Manifest) -> bool:
    """Return True if an object belongs to a gateway, by its name and labels."""
    metadata = live["metadata"]
    name = names.ROUTER if of(live) is SERVICES else names.GATEWAY
    ours = names.gateway_labels().items() <= mapping(metadata.get("labels")).items()
    return ours and bool(metadata["name"] == name)


def _mounted(deployment: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the Secrets that the gateway's pods mount as separate volumes."""
    volumes = mappings(at(deployment, "spec", "template", "spec").get("volumes"))
    return {name for volume in volumes if (name := text(mapping(volume.get("secret")).get("secretName")))}
