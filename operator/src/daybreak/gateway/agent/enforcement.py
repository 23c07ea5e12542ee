"""Detection of NetworkPolicy enforcement: the gateway tries a port that policies forbid it.

No status reports enforcement, and no name of a network plugin proves it. An established connection proves
that it is missing. Silence proves nothing, but is the usual effect of an enforced policy. A refused
connection may come from the pod or from the policy.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daybreak.gateway.haproxy.connections import close_connection

FORBIDDEN_PORT = 8265
"""Port of a Ray head's dashboard. Its policy admits its own cluster, KubeRay and the operator. The policy of
gateways allows ports of models only."""
TRY_SECONDS = 300.0
"""Seconds between two tries."""
FIRST_SECONDS = 10.0
"""Seconds between two searches for a Ray head, until one was tried."""
CONNECT_SECONDS = 3.0
"""Maximum seconds of a try. A network that enforces policies mostly drops packets silently."""

Connect = Callable[[str, int], Awaitable[None]]

log = structlog.get_logger("daybreak.gateway")


async def connect(host: str, port: int) -> None:
    """Connect, and close the connection immediately. Raises OSError."""
    _, writer = await asyncio.open_connection(host, port)
    close_connection(writer)


class EnforcementWatch(Collector):
    """Periodic check of enforcement.

    Args:
        heads: Function that returns the addresses of Ray heads of the namespace.
        connect: Function that opens a connection.
    """

    def __init__(self, heads: Callable[[], Iterable[str]], connect: Connect = connect) -> None:
        self._heads = heads
        self._connect = connect
        self.enforced: bool | None = None
        """True if the latest try failed without a refused connection; None if nothing is known yet."""

    async def run(self) -> None:
        """Repeat the check until canceled."""
        while True:
            await self.look()
            await asyncio.sleep(FIRST_SECONDS if self.enforced is None else TRY_SECONDS)

    async def look(self) -> None:
        """Try one Ray head."""
        host = next(iter(sorted(self._heads())), None)
        if host is None:
            return
        before = self.enforced
        try:
            self.enforced = not await self._reached(host)
        except ConnectionRefusedError:
            return
        if self.enforced is False and before is not False:
            log.warning(
                "NetworkPolicies are not enforced: the gateway reached a port that they forbid it",
                address=host,
                port=FORBIDDEN_PORT,
            )

    async def _reached(self, host: str) -> bool:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._connect(host, FORBIDDEN_PORT)
        except ConnectionRefusedError:
            raise
        except OSError:
            return False  # TimeoutError too
        return True

    def collect(self) -> Iterator[Metric]:
        """Yield the metric for Prometheus, or nothing while enforcement is unknown."""
        if self.enforced is not None:
            yield GaugeMetricFamily(
                "daybreak_gateway_network_policies_enforced",
                "1 if NetworkPolicies block a port that they forbid the gateway; 0 if it is reachable.",
                float(self.enforced),
            )
