"""How full a gateway is: connections and HAProxy's memory. HAProxy and metrics are told."""

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
"""Time between two looks."""
NEARLY_FULL = 0.8
"""Part of what there is from which on the gateway is short: clients with many connections get no more."""
ENOUGH = 0.7
"""Part below which it is not short any more."""
FULL = 0.95
"""Part from which on only clients with hardly any connections get one more. The pod stays ready: if all pods
were full and not ready, honest clients would be refused, for whom there is room."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True)
class Fullness:
    """One moment. A limit of zero is one that nobody knows."""

    connections: int = 0
    """Of clients, to services and to the common address."""
    connections_limit: int = 0
    connections_part: float = 0.0
    """Part of its connections that the fuller one of the two that clients reach has."""
    memory: int = 0
    """Bytes of HAProxy's container, the kernel's for connections included, without files that it may
    forget."""
    memory_limit: int = 0
    held: int = 0
    """Bytes of held requests, as they are counted."""
    held_limit: int = 0
    large: int = 0
    """Bytes of large bodies and their answers on the common address, as they are counted."""
    large_limit: int = 0

    @property
    def part(self) -> float:
        """How full: 0 to 1. What is counted has its own bound, and is refused there."""
        memory = self.memory / self.memory_limit if self.memory_limit else 0.0
        return max(self.connections_part, memory)


class FullnessWatch(Collector):
    """Looks at how full the gateway is, and tells HAProxy when it is short.

    Args:
        gateway: The HAProxy that holds; started before `run` is.
        router: The common address.
        memory: Tells what the container of the HAProxies uses of its memory and may use, in bytes; zeros
            while nobody knows.
    """

    def __init__(self, gateway: Gateway, router: Router, memory: Callable[[], tuple[int, int]]) -> None:
        self._gateway = gateway
        self._router = router
        self._memory = memory
        self._short = False
        self._told: tuple[bool, bool] | None = None
        """What both have been told. None: nothing yet, and those that an agent before this one started may be
        short."""
        self._stopped = False
        self.now = Fullness()

    @property
    def short(self) -> bool:
        """Whether it is nearly full."""
        return self._short

    @property
    def full(self) -> bool:
        """True if only clients with hardly any connections get one more."""
        return self.now.part >= FULL

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                if not self._stopped:
                    await self.look()
            except RuntimeApiError as error:
                log.debug("nobody tells how full the gateway is", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Look no more: a HAProxy that stops would wait for the connection that asks."""
        self._stopped = True

    async def look(self) -> None:
        """Look once. Raises RuntimeApiError."""
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
        told = (short, self.full)
        if told != self._told:
            await self._gateway.set_short(*told)
            await self._router.set_short(*told)
            changed, self._short, self._told = short != self._short, short, told
            found = {"connections": self.now.connections, "memory": used, "memory_limit": limit}
            if not changed:
                log.debug("told how full the gateway is", **found)
            elif short:
                log.warning("nearly full: clients with many connections get no more", **found)
            else:
                log.info("not nearly full any more", **found)

    def collect(self) -> Iterator[Metric]:
        """What Prometheus reads."""
        now = self.now
        for name, help_text, value in (
            ("connections", "Connections of clients.", now.connections),
            ("connections_limit", "Connections that clients may have.", now.connections_limit),
            ("memory_bytes", "Memory of HAProxy's container, the kernel's included.", now.memory),
            ("memory_limit_bytes", "Memory that it may use; 0: no limit is known.", now.memory_limit),
            ("held_bytes", "What held requests take, as it is counted.", now.held),
            ("held_limit_bytes", "What held requests may take.", now.held_limit),
            ("large_bytes", "Large bodies and answers at the common address.", now.large),
            ("large_limit_bytes", "What they may take.", now.large_limit),
            ("nearly_full", "Whether the gateway is short of connections or memory.", float(self._short)),
        ):
            yield GaugeMetricFamily(f"daybreak_gateway_{name}", help_text, value)
