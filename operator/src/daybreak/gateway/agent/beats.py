"""Heartbeats of the agent, with its state, to its keeper and to the supervisor of the HAProxies."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from daybreak.gateway.haproxy.processes import GatewayFailed, ask

BEAT_SECONDS = 1.0
"""Seconds between two heartbeats to the keeper, which kills a silent agent."""
_LOOK = 0.1
"""Seconds between two checks whether the supervisor listens."""

log = structlog.get_logger("daybreak.gateway")

State = Callable[[], tuple[str, str]]
"""Function that returns why the gateway is not ready and why it is not healthy; empty if it is."""


class Heartbeat:
    """Sender of heartbeats to keeper and supervisor.

    Args:
        socket: Socket of the supervisor of the HAProxies.
        keeper: File descriptor that the keeper reads; None: there is no keeper.
    """

    def __init__(self, socket: Path, keeper: int | None = None) -> None:
        self.socket = socket
        self.memory = (0, 0)
        """Latest memory usage and limit of the HAProxies' container, in bytes; zero if unknown."""
        self._keeper = keeper
        self._draining: float | None = None
        if keeper is not None:
            os.set_blocking(keeper, False)

    async def begin(self, ending: asyncio.Event) -> bool:
        """Wait until the supervisor listens: its container may still have to start or restart.

        Returns False if the pod is terminating and there is no supervisor.
        """
        while True:
            try:
                await self._beat(lambda: ("the agent starts", ""))
            except GatewayFailed:
                if ending.is_set():
                    return False
                await asyncio.sleep(_LOOK)
            else:
                return True

    async def run(self, state: State, drain: Callable[[float], None]) -> None:
        """Send heartbeats until canceled.

        `drain` is called with the seconds since the HAProxies began to drain.
        """
        while True:
            try:
                await self._beat(state)
            except GatewayFailed as error:
                log.warning("Failed to send heartbeat to the supervisor", error=str(error))
            if self._draining is not None:
                drain(self._draining)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, state: State) -> None:
        unready, unhealthy = state()
        if self._keeper is not None:
            with suppress(OSError):  # it has ended, and this process will as well
                os.write(self._keeper, b"0" if unready else b"1")
        message = {"do": "beat", "unready": unready, "unhealthy": unhealthy}
        answer = await ask(self.socket, message)
        self._draining = answer["draining"]
        used, limit = answer["memory"]
        self.memory = (int(used), int(limit))
