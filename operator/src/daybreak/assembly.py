"""Assembly of the operator from its parts."""

from collections.abc import Callable, Collection
from functools import partial

from daybreak.api.common import names
from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.profiles import Engines
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.resource import Resource
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.kind import Kind
from daybreak.controller.operator import Operator
from daybreak.controller.parts import Parts
from daybreak.controller.queue import Item, Queue
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.priority_watch import PriorityWatch
from daybreak.controller.watching.turn_watch import Pods, TurnWatch
from daybreak.gateways.gateway_controller import GatewayController
from daybreak.gateways.identity import GatewayIdentity
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.gateways.reports import Enqueue, GatewayReports
from daybreak.kinds.llmbatch.kind import llm_batches
from daybreak.kinds.llmbenchmark.kind import llm_benchmarks
from daybreak.kinds.llmroute.kind import GATHER_SECONDS, LLMRoutes, all_of
from daybreak.kinds.llmservice.kind import llm_services
from daybreak.kinds.modelserver.kind import model_servers
from daybreak.kinds.serveapplication.kind import serve_applications
from daybreak.kube.client import Api
from daybreak.kube.lease import Lease
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key, OwnerKey, gateway_key
from daybreak.platform import Platform

WORKLOADS = (LLM_SERVICES, MODEL_SERVERS, SERVE_APPLICATIONS)
"""Kinds of workloads behind gateways."""

ROUTES = (LLM_ROUTES,)
"""Further kinds that configure gateways."""

KINDS = (*WORKLOADS, LLM_BATCHES, LLM_BENCHMARKS, *ROUTES)
"""Kinds that the operator reconciles."""

Listen = Callable[[Cache, Collection[Resource], Enqueue], GatewayReports]
"""Factory of the listener for gateway reports: takes the cache, the kinds behind gateways, and a function
that enqueues a reconcile."""


def assemble(
    api: Api,
    platform: Platform,
    lease: Lease,
    client: ModelClient,
    *,
    engines: Engines,
    namespaces: Collection[str],
    nodes: bool,
    on_end: Callable[[], None],
    listen: Listen = GatewayReports,
) -> Operator:
    """Build the operator with all kinds.

    Args:
        api: The API server.
        platform: Settings of the installation.
        lease: Lease that the operator must hold before it writes.
        client: Probes models.
        engines: The engines that ModelServers may name.
        namespaces: Namespaces to watch; all if empty.
        nodes: True if the operator reads nodes.
        on_end: Called when the lease is lost, so that the process must end, and when the operator has ended.
        listen: Creates the listener for reports of gateways.
    """
    cache, queue = Cache(), Queue()
    watches = Watches(api, cache, namespaces=namespaces, nodes=nodes)
    enqueue_workload = partial(_enqueue_workload, queue)
    reports = listen(cache, WORKLOADS, enqueue_workload)
    ports = PortAllocator(cache, enqueue_workload)

    def enqueue_routes(namespace: str, after: float = 0.0) -> None:
        _enqueue(queue, LLMRoutes.name, all_of(namespace), after)

    route_ports = PortAllocator(cache, lambda key: enqueue_routes(key.namespace), names.GATEWAY_ROUTE_PORTS)
    reports.on_tallies = lambda namespace: enqueue_routes(namespace, GATHER_SECONDS)
    reports.on_short = reports.on_enforced = partial(_enqueue_gateway, queue)
    if platform.gateway_tokens:
        reports.identity = GatewayIdentity(api)
    parts = _parts(api, cache, queue, watches, platform, lease)
    routes = LLMRoutes(api, cache, platform, parts.applier, reports, parts.may_act, route_ports)

    cache.follow(partial(_follow_backends, queue, routes))
    kinds: list[Kind] = [
        llm_services(parts, client, reports, ports),
        model_servers(parts, client, reports, ports, engines),
        serve_applications(parts, reports, ports),
        llm_batches(parts),
        llm_benchmarks(parts),
        routes,
        GatewayController(
            api, cache, WORKLOADS, parts.applier, platform, reports, parts.may_act, routes=ROUTES
        ),
    ]
    operator = Operator(api, cache, queue, watches, lease, kinds, needed=KINDS, on_end=on_end)
    watches.on_installed = operator.resync
    return operator


def _follow_backends(queue: Queue, routes: LLMRoutes, resource: Resource, owner: OwnerKey) -> None:
    """Reconcile a route when the operator writes the status of one of its backends.

    The route's status shows the state of its backends.
    """
    if resource in WORKLOADS and (found := routes.concerned(resource, owner)) is not None:
        _enqueue(queue, routes.name, *found)


def _parts(api: Api, cache: Cache, queue: Queue, watches: Watches, platform: Platform, lease: Lease) -> Parts:
    """Build the parts that all kinds share."""
    nodes, booked, others = NodeWatch(cache, watches), BookedWatch(cache), OtherPods(api)

    def may_act() -> bool:
        return lease.held

    return Parts(
        api=api,
        cache=cache,
        watches=watches,
        platform=platform,
        applier=Applier(api, cache),
        nodes=nodes,
        turns=TurnWatch(
            nodes,
            partial(_enqueue_workload, queue),
            platform.node_wait,
            Pods(PriorityWatch(cache), booked, others),
        ),
        booked=booked,
        others=others,
        enqueue=partial(_enqueue, queue),
        may_act=may_act,
    )


def _enqueue_workload(queue: Queue, owner: OwnerKey, after: float = 0.0) -> None:
    """Enqueue a reconcile of a workload."""
    queue.add(Item(owner.kind, owner.key), after)


def _enqueue_gateway(queue: Queue, namespace: str) -> None:
    """Enqueue a reconcile of a namespace's gateway."""
    _enqueue(queue, GatewayController.name, gateway_key(namespace).key, 0.0)


def _enqueue(queue: Queue, kind: str, key: Key, after: float = 0.0) -> None:
    queue.add(Item(kind, key), after)
