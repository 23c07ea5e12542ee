"""Controller of ModelServers, as the operator runs it."""

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
    """Build the controller of ModelServers.

    Args:
        parts: Dependencies of every kind.
        client: Client that probes models.
        gateways: Source of the gateways' reports.
        ports: Allocator of the gateways' ports.
        engines: Available engines, by name.
    """
    cache, platform = parts.cache, parts.platform
    prober = Prober(client, parts.enqueue_of(MODEL_SERVERS))
    behind = gateways if platform.gateway_image else None
    observer = Observer(parts, behind, ports, engines)
    reconciler = Reconciler(parts, observer, prober)
    owned, by_nodes = (*OF_SERVERS, PODS), observer.concerned_by_nodes
    return OwnerKind(MODEL_SERVERS, cache, owned, reconciler, [prober], by_nodes)
