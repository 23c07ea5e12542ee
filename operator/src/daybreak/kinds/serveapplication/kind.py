"""Controller of ServeApplications, as the operator runs it."""

from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.serveapplication.observe.observer import Observer
from daybreak.kinds.serveapplication.reconciler import Reconciler
from daybreak.kube.watching.config_map_watch import ConfigMapWatch
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.resources import OF_APPLICATIONS, PODS, RAY_CLUSTERS


def serve_applications(parts: Parts, gateways: GatewaySource, ports: PortAllocator) -> OwnerKind:
    """Build the controller of ServeApplications.

    Args:
        parts: Dependencies of every kind.
        gateways: Source of the gateways' reports.
        ports: Allocator of the gateways' ports.
    """
    behind = gateways if parts.platform.gateway_image else None
    code = ConfigMapWatch(parts.api, parts.enqueue_of(SERVE_APPLICATIONS))
    observer = Observer(parts, behind, ports, code)
    reconciler = Reconciler(parts, observer)
    owned = (*OF_APPLICATIONS, RAY_CLUSTERS, PODS)
    by_nodes = observer.concerned_by_nodes
    return OwnerKind(SERVE_APPLICATIONS, parts.cache, owned, reconciler, [code], by_nodes)
