"""What pods of others hold on nodes, asked of the API server by who has to know: only pods of workloads are
watched."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal

import structlog

from daybreak.api.common import names
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.manifests.resources import PODS
from daybreak.ray.views.ray_pods import pod_views, requests_by_node
from daybreak.scheduling.room import Booked

FRESH_SECONDS = 5.0
"""How old an answer may be before it is asked for anew."""
FORGOTTEN_SECONDS = 60.0
"""How long an answer is kept that nobody has asked for anew."""
REFUSED_SECONDS = 600.0
"""How long nothing is asked after the API server has said that the operator may not ask."""
MOST_NODES = 32
"""Maximum number of nodes that are counted at a time. What other pods hold of further nodes is unknown."""

log = structlog.get_logger("daybreak.other-pods")


class OtherPods:
    """Asks for pods that are of no workload.

    Args:
        api: The API server.
        clock: Seconds that only grow.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, tuple[float, Mapping[str, Decimal]]] = {}
        """What they hold of a node, and when that was asked."""
        self._refused_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def known(self, nodes: Collection[str], then: Callable[[], None]) -> Booked | None:
        """What pods of others hold on nodes, as it was asked last; None: nothing is known yet.

        What is older than an answer holds is asked for anew.

        Args:
            nodes: Names of the nodes.
            then: Called when there is another answer.
        """
        asked, now = sorted(nodes)[:MOST_NODES], self._clock()
        old = [node for node in asked if node not in self._known or self._old(node, now)]
        if old and now >= self._refused_until and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask(old, then), name="ask for pods of others")
        if now < self._refused_until:
            return {}
        if any(node not in self._known for node in asked):
            return None
        return {node: self._known[node][1] for node in asked}

    async def _ask(self, nodes: Collection[str], then: Callable[[], None]) -> None:
        def held() -> list[Mapping[str, Decimal] | None]:
            return [self._known[node][1] if node in self._known else None for node in nodes]

        before = held()
        await self._look(nodes)
        if held() != before or self._clock() < self._refused_until:
            then()

    async def beside(self, booked: Booked, nodes: Collection[str]) -> Booked:
        """What is taken of nodes, with what pods of others hold on these.

        Where that cannot be asked, as of an operator that may read its own namespaces only, it is what was
        known: the scheduler says then that there is no room.

        Args:
            booked: What pods of workloads hold.
            nodes: Names of the nodes.
        """
        await self._look(sorted(nodes)[:MOST_NODES])
        found = {node: dict(taken) for node, taken in booked.items()}
        for node in self._known.keys() & set(nodes):
            own = found.setdefault(node, {})
            for resource, amount in self._known[node][1].items():
                own[resource] = own.get(resource, Decimal(0)) + amount
        return found

    def _old(self, node: str, now: float) -> bool:
        return now - self._known[node][0] >= FRESH_SECONDS

    async def _look(self, nodes: Collection[str]) -> None:
        """Ask about those of which nothing is known, or only what is old."""
        now = self._clock()
        self._known = {node: each for node, each in self._known.items() if now - each[0] < FORGOTTEN_SECONDS}
        try:
            for node in nodes if now >= self._refused_until else ():
                if node not in self._known or self._old(node, now):
                    self._known[node] = now, await self._held(node)
        except ApiError as error:
            if error.forbidden:
                self._refused_until = now + REFUSED_SECONDS
            log.info("pods of others are not known", error=str(error))

    async def _held(self, node: str) -> Mapping[str, Decimal]:
        query = {
            "fieldSelector": f"spec.nodeName={node}",
            "labelSelector": f"!{names.OWNER_KIND_LABEL}",
            # What the API server has in memory is new enough, and found by the node.
            "resourceVersion": "0",
        }
        page = await self._api.request("list", PODS, PODS.path(None), query=query)
        return requests_by_node(pod_views(page.get("items") or ())).get(node, {})
