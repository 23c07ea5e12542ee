"""Whether NetworkPolicies are enforced: the gateway tries a port that they forbid it.

No status says so, and no name of a network plugin proves it. A connection that is made does. Silence proves
nothing, but is what an enforced policy looks like. A refusal may be the pod's or the policy's own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daybreak.gateway.haproxy.connections import close_connection

FORBIDDEN_PORT = 8265
"""The dashboard of a Ray head. Its policy lets in its own cluster, KubeRay and the operator, and that of
gateways leads to ports of models only."""
TRY_SECONDS = 300.0
"""Time between two tries."""
FIRST_SECONDS = 10.0
"""Time between two looks for a Ray head, until one was tried."""
CONNECT_SECONDS = 3.0
"""How long a try may take. A network that enforces policies mostly drops packets in silence."""

Connect = Callable[[str, int], Awaitable[None]]

log = structlog.get_logger("daybreak.gateway")


async def connect(host: str, port: int) -> None:
    """Connect, and close the connection at once. Raises OSError."""
    _, writer = await asyncio.open_connection(host, port)
    close_connection(writer)


class EnforcementWatch(Collector):
    """Tries it now and then.

    Args:
        heads: Returns the addresses of Ray heads of the namespace.
        connect: Makes a connection.
    """

    def __init__(self, heads: Callable[[], Iterable[str]], connect: Connect = connect) -> None:
        self._heads = heads
        self._connect = connect
        self.enforced: bool | None = None
        """Whether the latest try met silence; None: nothing is known yet."""

    async def run(self) -> None:
        """Try until cancelled."""
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
        """What Prometheus reads; nothing while nobody knows."""
        if self.enforced is not None:
            yield GaugeMetricFamily(
                "daybreak_gateway_network_policies_enforced",
                "Whether a port that NetworkPolicies forbid the gateway stayed silent; 0: it was reached.",
                float(self.enforced),
            )
