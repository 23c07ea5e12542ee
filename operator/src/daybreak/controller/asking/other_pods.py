"""Node resources that pods outside Daybreak's workloads use.

They are queried on demand, because only pods of workloads are watched.
"""

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
"""Maximum age in seconds of an answer before the API server is queried again."""
FORGOTTEN_SECONDS = 60.0
"""Time in seconds for which an answer is kept if it is not refreshed."""
REFUSED_SECONDS = 600.0
"""Pause in seconds after the API server has denied access."""
MOST_NODES = 32
"""Maximum number of nodes counted at a time. The use of further nodes by other pods is unknown."""

log = structlog.get_logger("daybreak.other-pods")


class OtherPods:
    """Reads pods that belong to no workload.

    Args:
        api: The API server.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, tuple[float, Mapping[str, Decimal]]] = {}
        """Time of the query and resources that other pods use, by node."""
        self._refused_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def known(self, nodes: Collection[str], then: Callable[[], None]) -> Booked | None:
        """Return the latest known resources that other pods use on nodes, or None if they are unknown.

        Answers older than `FRESH_SECONDS` are refreshed in the background.

        Args:
            nodes: Names of the nodes.
            then: Called when an answer changes.
        """
        requested, now = sorted(nodes)[:MOST_NODES], self._clock()
        old = [node for node in requested if node not in self._known or self._old(node, now)]
        if old and now >= self._refused_until and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask(old, then), name="ask for pods of others")
        if now < self._refused_until:
            return {}
        if any(node not in self._known for node in requested):
            return None
        return {node: self._known[node][1] for node in requested}

    async def _ask(self, nodes: Collection[str], then: Callable[[], None]) -> None:
        def held() -> list[Mapping[str, Decimal] | None]:
            return [self._known[node][1] if node in self._known else None for node in nodes]

        before = held()
        await self._look(nodes)
        if held() != before or self._clock() < self._refused_until:
            then()

    async def beside(self, booked: Booked, nodes: Collection[str]) -> Booked:
        """Return the resources used on nodes, including those of other pods.

        If the API server cannot be queried, as with an operator that may read only its own namespaces, the
        result is the last known state. The scheduler then reports that capacity is missing.

        Args:
            booked: Resources that pods of workloads use.
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
        """Query nodes without an answer or with an outdated one."""
        now = self._clock()
        self._known = {node: each for node, each in self._known.items() if now - each[0] < FORGOTTEN_SECONDS}
        try:
            for node in nodes if now >= self._refused_until else ():
                if node not in self._known or self._old(node, now):
                    self._known[node] = now, await self._held(node)
        except ApiError as error:
            if error.forbidden:
                self._refused_until = now + REFUSED_SECONDS
            log.info("Failed to read pods of other owners", error=str(error))

    async def _held(self, node: str) -> Mapping[str, Decimal]:
        query = {
            "fieldSelector": f"spec.nodeName={node}",
            "labelSelector": f"!{names.OWNER_KIND_LABEL}",
            # The API server's cache is recent enough and indexed by node.
            "resourceVersion": "0",
        }
        page = await self._api.request("list", PODS, PODS.path(None), query=query)
        return requests_by_node(pod_views(page.get("items") or ())).get(node, {})
