"""Controller of LLMServices, as the operator runs it."""

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.controller.asking.job_events import JobEvents
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.owner_kind import BackgroundTask, OwnerKind
from daybreak.controller.parts import Parts
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmservice.observe import adapter_reports, copy_reports
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kinds.llmservice.reconciler import Reconciler
from daybreak.loop.observer import GatewaySource
from daybreak.manifests.resources import NODES, OWNED, PODS, RAY_CLUSTERS


def llm_services(
    parts: Parts, client: ModelClient, gateways: GatewaySource, ports: PortAllocator
) -> OwnerKind:
    """Build the controller of LLMServices.

    Args:
        parts: Dependencies of every kind.
        client: Client that probes models.
        gateways: Source of the gateways' reports.
        ports: Allocator of the gateways' ports.
    """
    enqueue = parts.enqueue_of(LLM_SERVICES)
    prober = Prober(client, enqueue)
    adapters = adapter_reports.adapter_prober(adapter_reports.http_reporter(), enqueue)
    copies = copy_reports.CopyProber(copy_reports.http_reporter(), enqueue)
    events = JobEvents(parts.api, enqueue)
    observer = Observer(parts, gateways, ports)
    reconciler = Reconciler(parts, observer, prober, adapters, copies, events)
    owned = (*OWNED, RAY_CLUSTERS, PODS, NODES)
    beside: list[BackgroundTask] = [prober, adapters, copies, events]
    return OwnerKind(LLM_SERVICES, parts.cache, owned, reconciler, beside, observer.concerned_by_nodes)
