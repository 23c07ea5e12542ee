"""The parts of the operator, put together."""

from collections.abc import Callable, Collection
from functools import partial

from daybreak.api.common.resource import Resource
from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.controller.kind import Kind
from daybreak.controller.operator import Operator
from daybreak.controller.queue import Item, Queue
from daybreak.gates.gateway_controller import GatewayController
from daybreak.gates.gateway_identity import GatewayIdentity
from daybreak.gates.gateway_reports import Enqueue, GatewayReports
from daybreak.kinds.llmbatch.kind import LLMBatches
from daybreak.kinds.llmservice.kind import LLMServices
from daybreak.kinds.llmservice.observe.model_client import ModelClient
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.lease import Lease
from daybreak.kube.watches import Watches
from daybreak.platform import Platform

WORKLOADS = (LLM_SERVICES,)
"""The kinds that stand behind gateways."""

KINDS = (*WORKLOADS, LLM_BATCHES)
"""The kinds that are looked after."""

Listen = Callable[[Cache, Collection[Resource], Enqueue], GatewayReports]
"""Makes what listens to gateways: of what is known, the kinds behind them, and what has one reconciled."""


def assemble(
    api: Api,
    platform: Platform,
    lease: Lease,
    client: ModelClient,
    *,
    namespaces: Collection[str],
    nodes: bool,
    on_end: Callable[[], None],
    listen: Listen = GatewayReports,
) -> Operator:
    """The operator, with every kind.

    Args:
        api: The API server.
        platform: Settings of the installation.
        lease: What is to be held before anything is written.
        client: Asks models.
        namespaces: Only these namespaces; none means all.
        nodes: Whether nodes are read.
        on_end: Called when the lease is lost, so that the process must end, and when it has ended.
        listen: Makes what listens to gateways.
    """
    cache, queue = Cache(), Queue()
    watches = Watches(api, cache, namespaces=namespaces, nodes=nodes)
    applier = Applier(api, cache)

    def may_act() -> bool:
        return lease.held

    enqueue = partial(_enqueue, queue, LLMServices.name)
    reports = listen(cache, WORKLOADS, enqueue)
    enqueue_batch = partial(_enqueue, queue, LLMBatches.name)
    if platform.gateway_tokens:
        reports.identity = GatewayIdentity(api)
    services = LLMServices(api, cache, watches, platform, applier, client, reports, enqueue, may_act)
    kinds: list[Kind] = [
        services,
        LLMBatches(api, cache, watches, platform, applier, enqueue_batch, may_act),
        GatewayController(api, cache, WORKLOADS, applier, platform, reports, may_act),
    ]
    operator = Operator(api, cache, queue, watches, lease, kinds, needed=KINDS, on_end=on_end)
    watches.on_kuberay = operator.resync
    return operator


def _enqueue(queue: Queue, kind: str, key: Key, after: float = 0.0) -> None:
    queue.add(Item(kind, key), after)
