"""Gathering, once, everything that one reconcile of a ModelServer decides on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from daybreak.api.common import names
from daybreak.api.common.custom_object import read_object
from daybreak.api.modelserver import validation
from daybreak.api.modelserver.definition import KIND, MODEL_SERVERS, ModelServer
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.plan import label_of
from daybreak.controller.turn_watch import TurnWatch, Workload
from daybreak.gates.gateways.port_allocator import PortAllocator
from daybreak.gates.traffic import Heard, together
from daybreak.kinds.modelserver.observe.claims import claims
from daybreak.kinds.modelserver.observe.observed import GatewayView, Observed
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import DEPLOYMENTS, PODS
from daybreak.scheduling.turns import NO_MATTER


class GatewaySource(Protocol):
    """Who knows what gateways say."""

    def heard(self, service: Key) -> tuple[Heard | None, ...]:
        """What each gateway of its namespace says of a workload; None: that one is not heard."""
        ...


class Observer:
    """Reads the cache and what gateways say; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        gateways: Knows what gateways say; None: there are none.
        ports: Gives out the gateways' ports.
        nodes: Knows the nodes.
        turns: Knows whose turn it is.
    """

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

    def observe(self, key: Key) -> Observed | None:
        """What is seen of a ModelServer, or None when there is none."""
        owner = owner_of(key)
        manifest = self._cache.get(MODEL_SERVERS, key)
        if manifest is None:
            self._ports.forget(owner)
            self._turns.forget(Workload(KIND, key))
            return None
        server, problems = read(manifest)
        if self._gateways is not None and self._ports.of(owner) is None:
            first, last = names.GATEWAY_PORTS
            problems = (*problems, f"the namespace's gateway serves {last - first + 1} services, no more")
        seen = Observed(manifest, server, problems, datetime.now(UTC), nodes=self._nodes.nodes())
        seen = self.again(key, seen)
        turns = self._turns.turns(Workload(KIND, key), claims(seen), seen.now)
        model = server.spec.model.name if server is not None else ""
        return replace(seen, turn=turns.get(model, NO_MATTER))

    def again(self, key: Key, seen: Observed) -> Observed:
        """The objects and the traffic of now, with the spec of that observation."""
        return replace(
            seen,
            now=datetime.now(UTC),
            gateway=self._gateway(key, seen.server),
            deployment=self._cache.get(DEPLOYMENTS, Key(key.namespace, names.server_deployment(key.name))),
            pods=tuple(self._cache.of_service(PODS, owner_of(key))),
        )

    def _gateway(self, key: Key, server: ModelServer | None) -> GatewayView | None:
        if self._gateways is None:
            return None
        owner = owner_of(key)
        model = server.spec.model.name if server is not None else ""
        traffic = together(self._gateways.heard(owner), model, [model])
        return GatewayView(self._ports.of(owner) or names.GATEWAY_PORTS[0], traffic)


def owner_of(key: Key) -> Key:
    """What stands for a ModelServer in the cache, and towards gateways."""
    return label_of(MODEL_SERVERS, key)


def read(manifest: Mapping[str, Any]) -> tuple[ModelServer | None, tuple[str, ...]]:
    """A ModelServer from its manifest, and what is wrong with it."""
    return read_object(manifest, ModelServer.from_manifest, validation.problems)
