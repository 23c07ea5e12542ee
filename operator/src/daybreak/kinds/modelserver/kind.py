"""The kind ModelServer, as the operator runs it."""

from collections.abc import Callable

from daybreak.api.modelserver.definition import MODEL_SERVERS
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.turn_watch import TurnWatch
from daybreak.gates.port_allocator import PortAllocator
from daybreak.kinds.modelserver.observe.observer import GatewaySource, Observer
from daybreak.kinds.modelserver.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_SERVERS, PODS
from daybreak.platform import Platform


def model_servers(
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
) -> OwnerKind:
    """Who looks after every ModelServer.

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
    prober = Prober(client, enqueue)
    behind = gateways if platform.gateway_image else None
    observer = Observer(cache, behind, ports, nodes, turns)
    reconciler = Reconciler(api, cache, observer, platform, prober, applier, may_act)
    return OwnerKind(MODEL_SERVERS, cache, (*OF_SERVERS, PODS), reconciler, [prober])
