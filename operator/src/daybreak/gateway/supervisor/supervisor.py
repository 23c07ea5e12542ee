"""Keeps the HAProxies of a gateway, whatever becomes of the agent, which is in a container of its own."""

import asyncio
import logging
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from daybreak.gateway.environment import Environment
from daybreak.gateway.supervisor.control import Control
from daybreak.gateway.supervisor.health import Health, HealthServer
from daybreak.gateway.supervisor.memory import memory

REFUSE_SECONDS = 15.0
"""How much longer than its drain a pod may take to end: the agent refuses those who are held even then."""
LEAVE_SECONDS = 5.0
"""How long it is waited for the agent's last word when all HAProxies have ended."""
_LOOK = 1.0

log = logging.getLogger("daybreak.gateway.supervisor")


@dataclass(frozen=True)
class Supervised:
    """What the supervisor has to know of a gateway."""

    folder: Path
    """GATEWAY_FOLDER: what it shares with the agent."""
    health_port: int
    """GATEWAY_HEALTH_PORT: where the kubelet asks."""
    end_seconds: int
    """How long the end of the pod may take, from when it is told to."""

    @classmethod
    def from_environment(cls, env: Environment) -> Self:
        """Read the environment. Raises InvalidSettings."""
        return cls(
            folder=Path(env.folder),
            health_port=env.number("GATEWAY_HEALTH_PORT", 9181, 1, 65535),
            end_seconds=env.leave_seconds + env.drain_seconds,
        )


class Supervisor:
    """The HAProxies of one gateway pod."""

    def __init__(self, supervised: Supervised) -> None:
        self._supervised = supervised
        self._health = Health()
        self._control = Control(supervised.folder, self._beat)
        self._server = HealthServer(self._health, supervised.health_port)
        self._told = asyncio.Event()
        self._draining = 0.0

    def drain(self) -> None:
        """The container is to end: the agent hears it, and lets those finish who are here."""
        if not self._told.is_set():
            self._draining = time.monotonic()
            self._health.draining = True
            self._told.set()

    async def run(self) -> int:
        """Run until told to end and all have finished, or until a HAProxy ends. Returns the exit status."""
        await self._control.start()
        await self._server.start()
        broken = asyncio.create_task(self._control.broken())
        drained = asyncio.create_task(self._drain())
        try:
            await asyncio.wait([broken, drained], return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                log.error("the HAProxies are ended", extra={"why": broken.result()})
                return 1
            return 0
        finally:
            broken.cancel()
            drained.cancel()
            self._server.stop()
            self._control.stop()
            await self._end_all()

    def _beat(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        self._health.beat(said)
        draining = time.monotonic() - self._draining if self._told.is_set() else None
        return {"draining": draining, "memory": memory()}

    async def _drain(self) -> None:
        """Wait until the container is told to end, and then until nobody is here any more."""
        await self._told.wait()
        alone = asyncio.create_task(self._let_finish())
        try:
            async with asyncio.timeout(self._supervised.end_seconds + REFUSE_SECONDS):
                await self._control.all_ended()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._control.left.wait()
        except TimeoutError:
            log.warning("ended before everybody had finished")
        finally:
            alone.cancel()

    async def _let_finish(self) -> None:
        """Where no agent has come in the place of one that has ended, let who is here finish without it."""
        while not self._health.alone:  # noqa: ASYNC110 -- silence has no event
            await asyncio.sleep(_LOOK)
        for process in self._control.processes.values():
            await process.signal(signal.SIGUSR1)

    async def _end_all(self) -> None:
        for process in self._control.processes.values():
            await process.signal(signal.SIGKILL)
            if process.status is not None:
                await process.wait()
