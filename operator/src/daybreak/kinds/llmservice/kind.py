"""The kind LLMService, as the operator runs it."""

from collections.abc import Callable

from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.owner_kind import Closes, OwnerKind
from daybreak.controller.turn_watch import TurnWatch
from daybreak.gates.port_allocator import PortAllocator
from daybreak.kinds.llmservice.observe import adapter_reports, copy_reports
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber
from daybreak.kinds.llmservice.observe.observer import GatewaySource, Observer
from daybreak.kinds.llmservice.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import NODES, OWNED, PODS, RAY_CLUSTERS
from daybreak.kube.watches import Watches
from daybreak.platform import Platform


def llm_services(
    api: Api,
    cache: Cache,
    watches: Watches,
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
    """Who looks after every LLMService.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        watches: Fill the cache.
        platform: Settings of the installation.
        applier: Writes objects.
        client: Asks models.
        gateways: Knows what gateways say.
        ports: Gives out the gateways' ports.
        nodes: Knows the nodes.
        turns: Knows whose turn it is where accelerators are scarce.
        enqueue: Has an LLMService reconciled.
        may_act: Whether the lease is held this moment.
    """
    prober = Prober(client, enqueue)
    adapters = adapter_reports.adapter_prober(adapter_reports.http_reporter(), enqueue)
    copies = CopyProber(copy_reports.http_reporter(), enqueue)
    observer = Observer(cache, watches, gateways, bool(platform.gateway_image), enqueue, nodes, turns, ports)
    reconciler = Reconciler(api, cache, observer, platform, prober, adapters, copies, applier, may_act)
    owned = (*OWNED, RAY_CLUSTERS, PODS, NODES)
    beside: list[Closes] = [prober, adapters, copies]
    return OwnerKind(LLM_SERVICES, cache, owned, reconciler, beside, observer.concerned_by_nodes)
