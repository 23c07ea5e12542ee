"""The kind ModelServer, as the operator runs it."""

from daybreak.api.modelserver.profiles import Engines
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.modelserver.observe.observer import Observer
from daybreak.kinds.modelserver.reconciler import Reconciler
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.resources import OF_SERVERS, PODS


def model_servers(
    parts: Parts,
    client: ModelClient,
    gateways: GatewaySource,
    ports: PortAllocator,
    engines: Engines,
) -> OwnerKind:
    """Who looks after every ModelServer.

    Args:
        parts: What every kind is built with.
        client: Asks models.
        gateways: Knows what gateways say.
        ports: Gives out the gateways' ports.
        engines: The engines that there are, by their names.
    """
    cache, platform = parts.cache, parts.platform
    prober = Prober(client, parts.enqueue_of(MODEL_SERVERS))
    behind = gateways if platform.gateway_image else None
    observer = Observer(parts, behind, ports, engines)
    reconciler = Reconciler(parts, observer, prober)
    owned, by_nodes = (*OF_SERVERS, PODS), observer.concerned_by_nodes
    return OwnerKind(MODEL_SERVERS, cache, owned, reconciler, [prober], by_nodes)
