"""The kind LLMService, as the operator runs it."""

from collections.abc import Callable, Collection

from daybreak.api.common import names
from daybreak.api.common.resource import Resource
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.turn_watch import TurnWatch
from daybreak.gates.port_allocator import PortAllocator
from daybreak.kinds.llmservice.observe import copy_reports
from daybreak.kinds.llmservice.observe.adapter_reports import AdapterProber, HttpReporter
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber
from daybreak.kinds.llmservice.observe.observer import GatewaySource, Observer
from daybreak.kinds.llmservice.reconciler import Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import NODES, OWNED, PODS, RAY_CLUSTERS
from daybreak.kube.watches import Watches
from daybreak.platform import Platform


class LLMServices:
    """Looks after every LLMService.

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

    name = LLM_SERVICES.kind
    watched: Collection[Resource] = frozenset((LLM_SERVICES, *OWNED, RAY_CLUSTERS, PODS, NODES))

    def __init__(
        self,
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
    ) -> None:
        self._cache = cache
        self._prober = Prober(client, enqueue)
        self._adapters = AdapterProber(HttpReporter(), enqueue)
        wanted = bool(platform.gateway_image)
        self._observer = Observer(cache, watches, gateways, wanted, enqueue, nodes, turns, ports)
        self._copies = CopyProber(copy_reports.HttpReporter(), enqueue)
        self._reconciler = Reconciler(
            api,
            cache,
            self._observer,
            platform,
            self._prober,
            self._adapters,
            self._copies,
            applier,
            may_act,
        )

    def concerned(self, resource: Resource, key: Key) -> tuple[Key, float] | None:
        """At once, unless it is an object of a gateway or of another kind, which has no LLMService's name."""
        return (key, 0.0) if names.is_service(key.name) else None

    def objects(self) -> Collection[Key]:
        """Every LLMService."""
        return self._cache.keys(LLM_SERVICES)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Those for which the fit check has another answer now."""
        return await self._observer.concerned_by_nodes()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one LLMService."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End the questions to models and replicas."""
        await self._prober.close()
        await self._adapters.close()
        await self._copies.close()
