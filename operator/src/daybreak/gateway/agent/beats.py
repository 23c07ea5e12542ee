"""Says to the supervisor that the agent lives, and how it is."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import structlog

BEAT_SECONDS = 1.0
"""Time between two words to the supervisor, which kills an agent that is silent for long."""

log = structlog.get_logger("daybreak.gateway")


class Beats:
    """Speaks to the supervisor.

    Args:
        socket: Where it listens.
        state: Why the gateway is not ready, why it is not healthy, and why it is full; empty: it is ready,
            it is healthy, it is not full.
    """

    def __init__(self, socket: Path, state: Callable[[], tuple[str, str, str]]) -> None:
        self._socket = socket
        self._state = state

    async def run(self, pid: int) -> None:
        """Speak until cancelled."""
        while True:
            try:
                await self._beat(pid)
            except (OSError, asyncio.IncompleteReadError) as error:
                log.warning("the supervisor does not listen", error=str(error))
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, pid: int) -> None:
        unready, unhealthy, full = self._state()
        words = {"do": "beat", "pid": pid, "unready": unready, "unhealthy": unhealthy, "full": full}
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(json.dumps(words).encode() + b"\n")
            await reader.readuntil()
        finally:
            writer.close()
