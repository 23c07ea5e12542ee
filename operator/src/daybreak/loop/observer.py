"""Observe a workload: read the cache and the gateways' reports, once for each reconcile."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.controller.parts import Parts
from daybreak.controller.watching.fit_watch import FitWatch
from daybreak.gates.gateway_rejected import rejection
from daybreak.gates.traffic import ModelReports, clusters_in_use, together
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import DEPLOYMENTS, PODS
from daybreak.scheduling.fit import Question
from daybreak.workloads.claims import claims
from daybreak.workloads.observed import GatewayView, Observed

S = TypeVar("S", bound=Observed[Any])


class GatewaySource(Protocol):
    """Reports of gateways."""

    def received(self, workload: OwnerKey) -> tuple[ModelReports | None, ...]:
        """Return the report of each gateway of the namespace on a workload, or None for a missing report."""
        ...

    def remains(self, namespace: str) -> bool:
        """Return True if an object of a namespace's gateway exists."""
        ...


class Observer(ABC, Generic[S]):
    """Reads the cache and the gateways' reports; sends no request to the API server.

    Args:
        parts: Dependencies that all kinds share.
        gateways: Reports of gateways, or None without gateways.
        ports: Assigns the gateways' ports.
    """

    resource: Resource
    """Resource of the kind."""

    def __init__(self, parts: Parts, gateways: GatewaySource | None, ports: PortAllocator) -> None:
        self._cache = parts.cache
        self._watches = parts.watches
        self._gateways = gateways
        self._ports = ports
        self._nodes = parts.nodes
        self._turns = parts.turns
        self._booked = parts.booked
        self._fit = FitWatch()

    @abstractmethod
    def read(self, manifest: Manifest, now: datetime) -> S:
        """Read a manifest and the kept revisions."""

    @abstractmethod
    def objects(self, key: Key, observed: S) -> S:
        """Add the current objects that are specific to the kind."""

    @abstractmethod
    def questions(self, subject: Any) -> Sequence[Question]:
        """Return the fit checks of an object against the nodes."""

    def forget(self, key: Key) -> None:
        """Drop all data about a deleted object."""

    def owner(self, key: Key) -> OwnerKey:
        """Return an object as the owner of its objects."""
        return OwnerKey(self.resource.kind, *key)

    def observe(self, key: Key) -> S | None:
        """Observe one object, or return None if it was deleted."""
        owner = self.owner(key)
        manifest = self._cache.get(self.resource, key)
        if manifest is None:
            self._ports.forget(owner)
            self._fit.forget(key)
            self._turns.forget(owner)
            self.forget(key)
            return None
        observed = self.read(manifest, datetime.now(UTC))
        gateway = self.gateway(key, observed)
        if gateway is not None and not gateway.port:
            first, last = names.GATEWAY_PORTS
            message = f"the namespace's gateway serves {last - first + 1} services, no more"
            observed = replace(observed, problems=(*observed.problems, message))
            gateway = replace(gateway, port=first)
        observed = self._with_objects(key, replace(observed, gateway=gateway, nodes=self._nodes.nodes()))
        if observed.changes_revision:
            observed = replace(observed, booked=self._booked.booked())
        self._fit.note(
            key, observed.subject if observed.fit_checked else None, observed.nodes, self.questions
        )
        return replace(observed, turns=self._turns.turns(owner, claims(observed), observed.now))

    def again(self, key: Key, observed: S) -> S:
        """Observe the objects and the traffic again. A newer spec has its own reconcile."""
        if self._cache.uid(self.resource, key) != observed.manifest["metadata"]["uid"]:
            return observed  # the current objects may be a successor's
        gateway = observed.gateway
        if gateway is not None and self._gateways is not None:
            received = self._gateways.received(self.owner(key))
            gateway = replace(
                gateway, traffic=_traffic(observed, received), clusters=clusters_in_use(received)
            )
        return self._with_objects(key, replace(observed, gateway=gateway, now=datetime.now(UTC)))

    def gateway(self, key: Key, observed: S) -> GatewayView | None:
        """Return the gateway of an object, with port 0 if no port is left, or None without a gateway."""
        if self._gateways is None:
            return None
        received = self._gateways.received(self.owner(key))
        deployment = self._cache.get(DEPLOYMENTS, Key(key.namespace, names.GATEWAY))
        return GatewayView(
            port=self._ports.of(self.owner(key)) or 0,
            traffic=_traffic(observed, received),
            clusters=clusters_in_use(received),
            rejected=rejection(deployment),
        )

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Return the objects whose fit check has another result now than when they were observed."""
        return await self._fit.concerned(self._nodes.nodes())

    def _with_objects(self, key: Key, observed: S) -> S:
        pods = tuple(self._cache.owned_by(self.owner(key), PODS))
        return self.objects(key, replace(observed, pods=pods))


def _traffic(observed: Observed[Any], received: Sequence[ModelReports | None]) -> dict[str, Any]:
    gates = list(observed.subject.sleeps) if observed.subject is not None else []
    return {gate: together(received, gate, gates) for gate in gates}
