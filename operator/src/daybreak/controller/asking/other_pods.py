"""What pods of others hold on nodes, asked of the API server by who has to know: only pods of workloads are
watched."""

import time
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal

import structlog

from daybreak.api.common import names
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import PODS
from daybreak.ray.views.ray_pods import pod_views, requests_by_node
from daybreak.scheduling.room import Booked

FRESH_SECONDS = 5.0
"""How long an answer holds."""
REFUSED_SECONDS = 600.0
"""How long nothing is asked after the API server has said that the operator may not ask."""
MOST_NODES = 32
"""Nodes that are asked about at a time: others count as if they were free of other pods."""

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

    async def beside(self, booked: Booked, nodes: Collection[str]) -> Booked:
        """What is taken of nodes, with what pods of others hold on these.

        Where that cannot be asked, as of an operator that may read its own namespaces only, it is what was
        known: the scheduler says then that there is no room.

        Args:
            booked: What pods of workloads hold.
            nodes: Names of the nodes.
        """
        now = self._clock()
        self._known = {node: each for node, each in self._known.items() if now - each[0] < FRESH_SECONDS}
        try:
            for node in sorted(nodes)[:MOST_NODES] if now >= self._refused_until else ():
                if node not in self._known:
                    self._known[node] = now, await self._held(node)
        except ApiError as error:
            if error.forbidden:
                self._refused_until = now + REFUSED_SECONDS
            log.info("pods of others are not known", error=str(error))
        found = {node: dict(taken) for node, taken in booked.items()}
        for node in self._known.keys() & set(nodes):
            own = found.setdefault(node, {})
            for resource, amount in self._known[node][1].items():
                own[resource] = own.get(resource, Decimal(0)) + amount
        return found

    async def _held(self, node: str) -> Mapping[str, Decimal]:
        query = {
            "fieldSelector": f"spec.nodeName={node}",
            "labelSelector": f"!{names.SERVICE_LABEL}",
            # What the API server has in memory is new enough, and found by the node.
            "resourceVersion": "0",
        }
        page = await self._api.request("list", PODS, PODS.path(None), query=query)
        return requests_by_node(pod_views(page.get("items") or ())).get(node, {})
