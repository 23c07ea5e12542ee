"""Says that the agent lives, and how it is, to its keeper and to the supervisor of the HAProxies."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from daybreak.gateway.haproxy.processes import GatewayFailed, ask

BEAT_SECONDS = 1.0
"""Time between two words to the keeper, which kills an agent that is silent for long."""
_LOOK = 0.1
"""Seconds between two looks whether the supervisor listens."""

log = structlog.get_logger("daybreak.gateway")

State = Callable[[], tuple[str, str]]
"""Why the gateway is not ready, and why it is not healthy; empty: it is ready, it is healthy."""


class Beats:
    """Speaks to both.

    Args:
        socket: Where the supervisor of the HAProxies listens.
        keeper: File descriptor that the keeper reads; None: there is no keeper.
    """

    def __init__(self, socket: Path, keeper: int | None = None) -> None:
        self.socket = socket
        self.memory = (0, 0)
        """What the container of the HAProxies used of its memory last and may use, in bytes; zero: nobody
        knows."""
        self._keeper = keeper
        self._draining: float | None = None
        if keeper is not None:
            os.set_blocking(keeper, False)

    async def begin(self, ending: asyncio.Event) -> bool:
        """Wait until the supervisor listens: its container may be yet to start, or to start again.

        Returns False where the pod is to end, and there is none.
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
        """Speak until cancelled. `drain` is called with for how many seconds the HAProxies are to end."""
        while True:
            try:
                await self._beat(state)
            except GatewayFailed as error:
                log.warning("nobody listens", error=str(error))
            if self._draining is not None:
                drain(self._draining)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, state: State) -> None:
        unready, unhealthy = state()
        if self._keeper is not None:
            with suppress(OSError):  # it has ended, and so does this process
                os.write(self._keeper, b"0" if unready else b"1")
        said = {"do": "beat", "unready": unready, "unhealthy": unhealthy}
        answer = await ask(self.socket, said)
        self._draining = answer["draining"]
        used, limit = answer["memory"]
        self.memory = (int(used), int(limit))
