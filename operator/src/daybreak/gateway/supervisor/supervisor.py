"""Supervisor of a gateway's HAProxies, independent of the agent, which has its own container."""

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
"""Additional seconds for a pod's end after its drain, in which the agent rejects the remaining held
requests."""
LEAVE_SECONDS = 5.0
"""Maximum seconds to wait for the agent's last message when all HAProxies have ended."""
_LOOK = 1.0

log = logging.getLogger("daybreak.gateway.supervisor")


@dataclass(frozen=True)
class Supervised:
    """Settings of the supervisor."""

    folder: Path
    """GATEWAY_FOLDER: folder that the agent shares."""
    health_port: int
    """GATEWAY_HEALTH_PORT: port of the kubelet's probes."""
    end_seconds: int
    """Maximum seconds for the end of the pod, from the start of its termination."""

    @classmethod
    def from_environment(cls, env: Environment) -> Self:
        """Read the environment. Raises InvalidSettings."""
        return cls(
            folder=Path(env.folder),
            health_port=env.number("GATEWAY_HEALTH_PORT", 9181, 1, 65535),
            end_seconds=env.leave_seconds + env.drain_seconds,
        )


class Supervisor:
    """Supervisor of one gateway pod's HAProxies."""

    def __init__(self, supervised: Supervised) -> None:
        self._supervised = supervised
        self._health = Health()
        self._control = Control(supervised.folder, self._beat)
        self._server = HealthServer(self._health, supervised.health_port)
        self._reported = asyncio.Event()
        self._draining = 0.0

    def drain(self) -> None:
        """Start the end of the container: the agent is notified, and current requests may finish."""
        if not self._reported.is_set():
            self._draining = time.monotonic()
            self._health.draining = True
            self._reported.set()

    async def run(self) -> int:
        """Run until termination and the end of all requests, or until a HAProxy ends.

        Returns the exit status.
        """
        await self._control.start()
        await self._server.start()
        broken = asyncio.create_task(self._control.broken())
        drained = asyncio.create_task(self._drain())
        try:
            await asyncio.wait([broken, drained], return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                log.error("Ending the HAProxies", extra={"why": broken.result()})
                return 1
            return 0
        finally:
            broken.cancel()
            drained.cancel()
            self._server.stop()
            self._control.stop()
            await self._end_all()

    def _beat(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        self._health.beat(report)
        draining = time.monotonic() - self._draining if self._reported.is_set() else None
        return {"draining": draining, "memory": memory()}

    async def _drain(self) -> None:
        """Wait until the container terminates, and then until all requests have ended."""
        await self._reported.wait()
        alone = asyncio.create_task(self._let_finish())
        try:
            async with asyncio.timeout(self._supervised.end_seconds + REFUSE_SECONDS):
                await self._control.all_ended()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._control.left.wait()
        except TimeoutError:
            log.warning("Ended before all requests had finished")
        finally:
            alone.cancel()

    async def _let_finish(self) -> None:
        """Let current requests finish without an agent if no new one has replaced an ended one."""
        while not self._health.alone:  # noqa: ASYNC110 -- silence has no event
            await asyncio.sleep(_LOOK)
        for process in self._control.processes.values():
            await process.signal(signal.SIGUSR1)

    async def _end_all(self) -> None:
        for process in self._control.processes.values():
            await process.signal(signal.SIGKILL)
            if process.status is not None:
                await process.wait()
