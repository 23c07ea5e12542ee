"""Usage of a gateway: connections and memory of HAProxy, reported to HAProxy and as metrics."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.router.router import Router

LOOK_SECONDS = 1.0
"""Seconds between two measurements."""
NEARLY_FULL = 0.8
"""Part of the capacity from which the gateway is short: clients with many connections get no more."""
ENOUGH = 0.7
"""Part of the capacity below which the gateway is no longer short."""
FULL = 0.95
"""Part of the capacity from which only clients with hardly any connections get another one. The pod stays
ready: if all pods were full and not ready, well-behaved clients would be rejected although there is capacity
for them."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True)
class Fullness:
    """Usage at one time. A limit of zero is unknown."""

    connections: int = 0
    """Connections of clients, to services and to the common address."""
    connections_limit: int = 0
    connections_part: float = 0.0
    """Used part of the connections of the fuller one of the two HAProxies that clients reach."""
    memory: int = 0
    """Memory of HAProxy's container in bytes, including kernel memory for connections, without reclaimable
    files."""
    memory_limit: int = 0
    held: int = 0
    """Counted bytes of held requests."""
    held_limit: int = 0
    large: int = 0
    """Counted bytes of large bodies and their responses at the common address."""
    large_limit: int = 0

    @property
    def part(self) -> float:
        """Used part of the capacity, from 0 to 1.

        Counted memory has its own limit, which rejects requests.
        """
        memory = self.memory / self.memory_limit if self.memory_limit else 0.0
        return max(self.connections_part, memory)


class FullnessWatch(Collector):
    """Monitor of the gateway's usage, which notifies HAProxy of a shortage.

    Args:
        gateway: HAProxy that holds, started before `run`.
        router: Common address.
        memory: Function that returns memory usage and limit of the HAProxies' container, in bytes; zeros
            while unknown.
    """

    def __init__(self, gateway: Gateway, router: Router, memory: Callable[[], tuple[int, int]]) -> None:
        self._gateway = gateway
        self._router = router
        self._memory = memory
        self._short = False
        self._reported: tuple[bool, bool] | None = None
        """Latest values sent to both HAProxies. None: none was sent yet, and HAProxies of a previous agent
        may be short."""
        self._stopped = False
        self.now = Fullness()

    @property
    def short(self) -> bool:
        """True if the gateway is nearly full."""
        return self._short

    @property
    def full(self) -> bool:
        """True if only clients with hardly any connections get another one."""
        return self.now.part >= FULL

    async def run(self) -> None:
        """Measure until canceled."""
        while True:
            try:
                if not self._stopped:
                    await self.look()
            except RuntimeApiError as error:
                log.debug("Failed to measure the gateway's utilization", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Stop measuring: a stopping HAProxy would wait for the connection of the query."""
        self._stopped = True

    async def look(self) -> None:
        """Measure once. Raises RuntimeApiError."""
        held, large = await self._gateway.kept(), await self._router.kept()
        both = (await self._gateway.connections(), await self._router.connections())
        used, limit = self._memory()
        self.now = Fullness(
            connections=sum(each.now for each in both),
            connections_limit=sum(each.limit for each in both),
            connections_part=max(each.now / each.limit for each in both),
            memory=used,
            memory_limit=limit,
            held=held.held_bytes,
            held_limit=self._gateway.config.hold_bytes,
            large=large.bytes,
            large_limit=self._router.config.budget_bytes,
        )
        short = self.now.part >= (ENOUGH if self._short else NEARLY_FULL)
        reported = (short, self.full)
        if reported != self._reported:
            await self._gateway.set_short(*reported)
            await self._router.set_short(*reported)
            changed, self._short, self._reported = short != self._short, short, reported
            found = {"connections": self.now.connections, "memory": used, "memory_limit": limit}
            if not changed:
                log.debug("Reported the gateway's utilization to HAProxy", **found)
            elif short:
                log.warning("Gateway is nearly full, limiting clients with many connections", **found)
            else:
                log.info("Gateway is no longer nearly full", **found)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for Prometheus."""
        now = self.now
        for name, help_text, value in (
            ("connections", "Current number of client connections.", now.connections),
            ("connections_limit", "Maximum number of client connections.", now.connections_limit),
            ("memory_bytes", "Memory of HAProxy's container in bytes, including kernel memory.", now.memory),
            ("memory_limit_bytes", "Memory limit of the container in bytes; 0 if unknown.", now.memory_limit),
            ("held_bytes", "Counted memory of held requests in bytes.", now.held),
            ("held_limit_bytes", "Maximum memory of held requests in bytes.", now.held_limit),
            ("large_bytes", "Memory of large bodies and answers at the common address in bytes.", now.large),
            ("large_limit_bytes", "Maximum memory of large bodies and answers in bytes.", now.large_limit),
            ("nearly_full", "1 if connections or memory are nearly exhausted.", float(self._short)),
        ):
            yield GaugeMetricFamily(f"daybreak_gateway_{name}", help_text, value)
