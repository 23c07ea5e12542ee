"""Gathering, once, everything that one reconcile of a workload with one gate decides on."""

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.controller.plan import label_of
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch, Workload
from daybreak.gates.gateways.gateway_rejected import rejection
from daybreak.gates.gateways.port_allocator import PortAllocator
from daybreak.gates.one_gate.claims import claims
from daybreak.gates.one_gate.observed import GatewayView, Observed
from daybreak.gates.traffic import Heard, clusters_in_use, together
from daybreak.kube.resources import DEPLOYMENTS, PODS
from daybreak.kube.watching.cache import Cache, Key
from daybreak.scheduling.claim import NO_MATTER

S = TypeVar("S", bound=Observed[Any])


class GatewaySource(Protocol):
    """Who knows what gateways say."""

    def heard(self, service: Key) -> tuple[Heard | None, ...]:
        """What each gateway of its namespace says of a workload; None: that one is not heard."""
        ...


class Observer(ABC, Generic[S]):
    """Reads the cache and what gateways say; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        gateways: Knows what gateways say; None: there are none.
        ports: Gives out the gateways' ports.
        nodes: Knows the nodes.
        turns: Knows whose turn it is.
    """

    resource: Resource
    """The kind."""

    def __init__(
        self,
        cache: Cache,
        gateways: GatewaySource | None,
        ports: PortAllocator,
        nodes: NodeWatch,
        turns: TurnWatch,
    ) -> None:
        self._cache = cache
        self._gateways = gateways
        self._ports = ports
        self._nodes = nodes
        self._turns = turns

    @abstractmethod
    def read(self, manifest: Manifest, now: datetime) -> S:
        """What its manifest says alone."""

    @abstractmethod
    def objects(self, key: Key, seen: S) -> S:
        """The objects of now that are the kind's own."""

    def owner(self, key: Key) -> Key:
        """What stands for one in the cache, and towards gateways."""
        return label_of(self.resource, key)

    def observe(self, key: Key) -> S | None:
        """What is seen of one, or None when there is none."""
        owner, workload = self.owner(key), Workload(self.resource.kind, key)
        manifest = self._cache.get(self.resource, key)
        if manifest is None:
            self._ports.forget(owner)
            self._turns.forget(workload)
            return None
        seen = self.read(manifest, datetime.now(UTC))
        if self._gateways is not None and self._ports.of(owner) is None:
            first, last = names.GATEWAY_PORTS
            said = f"the namespace's gateway serves {last - first + 1} services, no more"
            seen = replace(seen, problems=(*seen.problems, said))
        seen = self.again(key, replace(seen, nodes=self._nodes.nodes()))
        turns = self._turns.turns(workload, claims(seen), seen.now)
        return replace(seen, turn=turns.get(self._gate_name(seen), NO_MATTER))

    def again(self, key: Key, seen: S) -> S:
        """The objects and the traffic of now, with the spec of that observation."""
        now = replace(
            seen,
            now=datetime.now(UTC),
            gateway=self._gateway(key, seen),
            pods=tuple(self._cache.of_service(PODS, self.owner(key))),
        )
        return self.objects(key, now)

    def _gateway(self, key: Key, seen: S) -> GatewayView | None:
        if self._gateways is None:
            return None
        owner, gate = self.owner(key), self._gate_name(seen)
        heard = self._gateways.heard(owner)
        traffic, port = together(heard, gate, [gate]), self._ports.of(owner) or names.GATEWAY_PORTS[0]
        deployment = self._cache.get(DEPLOYMENTS, Key(key.namespace, names.GATEWAY))
        return GatewayView(port, traffic, clusters_in_use(heard), rejection(deployment))

    def _gate_name(self, seen: S) -> str:
        return str(seen.subject.gate_name) if seen.subject is not None else ""
