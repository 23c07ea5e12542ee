"""The kind ModelServer, as the operator runs it."""

from collections.abc import Callable, Collection

from daybreak.api.common import names
from daybreak.api.common.resource import Resource
from daybreak.api.modelserver.definition import MODEL_SERVERS
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.turn_watch import TurnWatch
from daybreak.gates.port_allocator import PortAllocator
from daybreak.kinds.modelserver.observe.observer import GatewaySource, Observer
from daybreak.kinds.modelserver.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_SERVERS, PODS
from daybreak.platform import Platform


class ModelServers:
    """Looks after every ModelServer.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        platform: Settings of the installation.
        applier: Writes objects.
        client: Asks models.
        gateways: Knows what gateways say.
        ports: Gives out the gateways' ports.
        nodes: Knows the nodes.
        turns: Knows whose turn it is where accelerators are scarce.
        enqueue: Has a ModelServer reconciled.
        may_act: Whether the lease is held this moment.
    """

    name = MODEL_SERVERS.kind
    watched: Collection[Resource] = frozenset((MODEL_SERVERS, *OF_SERVERS, PODS))

    def __init__(
        self,
        api: Api,
        cache: Cache,
        platform: Platform,
        applier: Applier,
        client: ModelClient,
        gateways: GatewaySource,
        ports: PortAllocator,
        nodes: NodeWatch,
        turns: TurnWatch,
        enqueue: Callable[[Key], None],
        may_act: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._prober = Prober(client, enqueue)
        behind = gateways if platform.gateway_image else None
        observer = Observer(cache, behind, ports, nodes, turns)
        self._reconciler = Reconciler(api, cache, observer, platform, self._prober, applier, may_act)

    def concerned(self, resource: Resource, key: Key) -> tuple[Key, float] | None:
        """At once, if it is a ModelServer or belongs to one."""
        if resource is MODEL_SERVERS:
            return key, 0.0
        server = names.server_of(key.name)
        return (Key(key.namespace, server), 0.0) if server is not None else None

    def objects(self) -> Collection[Key]:
        """Every ModelServer."""
        return self._cache.keys(MODEL_SERVERS)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """None: the scheduler says of a pod whether it finds a place."""
        return ()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one ModelServer."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End the questions to models."""
        await self._prober.close()
