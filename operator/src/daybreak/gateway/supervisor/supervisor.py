"""Keeps an agent beside the HAProxies: one that dies or hangs is replaced, and no stream is cut by it."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import structlog

from daybreak.gateway.environment import DRAINING_SINCE, Environment
from daybreak.gateway.haproxy import child
from daybreak.gateway.haproxy.processes import HAPROXY_HANGS
from daybreak.gateway.supervisor.control import Control
from daybreak.gateway.supervisor.health import Health, HealthServer

HANG_SECONDS = 20.0
"""An agent that says nothing for so long hangs: it speaks every second."""
START_SECONDS = 120.0
"""How long a new agent may take to its first word."""
PAUSE_SECONDS = (0.1, 10.0)
"""Between two agents, doubling for as long as none of them comes to work."""
_LOOK = 0.5

log = structlog.get_logger("daybreak.gateway.supervisor")


@dataclass(frozen=True)
class Supervised:
    """What the supervisor has to know of a gateway."""

    folder: Path
    """GATEWAY_FOLDER: its private folder."""
    health_port: int
    """GATEWAY_HEALTH_PORT: where the kubelet asks."""
    end_seconds: int
    """How long the end of the pod may take, from when it is told to."""
    agent: tuple[str, ...] = (sys.executable, "-m", "daybreak.gateway.agent")
    """The agent's command."""

    @classmethod
    def from_environment(cls, env: Environment) -> Self:
        """Read the environment. Raises InvalidSettings."""
        return cls(
            folder=Path(env.folder),
            health_port=env.number("GATEWAY_HEALTH_PORT", 9181, 1, 65535),
            end_seconds=env.leave_seconds + env.drain_seconds,
        )


class Supervisor:
    """One gateway pod."""

    def __init__(self, supervised: Supervised) -> None:
        self._supervised = supervised
        self._health = Health()
        self._control = Control(supervised.folder, self._beat)
        self._server = HealthServer(self._health, supervised.health_port)
        self._agent: asyncio.subprocess.Process | None = None
        self._started = 0.0
        self._spoke = False
        """Whether the agent that runs has said something."""
        self._worked = False
        """Whether it has come to work."""
        self._draining = float("nan")

    def drain(self) -> None:
        """The pod is to end: the agent lets those finish who are here."""
        if not self._health.draining:
            self._health.draining = True
            self._draining = time.monotonic()
        if self._agent is not None and self._agent.returncode is None:
            self._agent.send_signal(signal.SIGTERM)

    async def run(self) -> int:
        """Run until the pod was told to end and all have finished, or until a HAProxy ends.

        Returns the exit status.
        """
        await self._control.start()
        await self._server.start()
        ended = asyncio.create_task(self._control.one_ended())
        try:
            pause = PAUSE_SECONDS[0]
            while True:
                status = await self._until_the_agent_ends(ended)
                if ended.done():
                    log.error("HAProxy has ended", name=ended.result())
                    return 1
                if status in (0, HAPROXY_HANGS) or not self._haproxies_run():
                    return 0 if self._health.draining else status
                if self._control.stopping:
                    # Nobody is held any more by then, and there is no socket to adopt them over.
                    return await self._let_finish()
                log.error("the agent has ended: HAProxy goes on", status=status, again_seconds=pause)
                await asyncio.sleep(PAUSE_SECONDS[0] if self._worked else pause)
                pause = PAUSE_SECONDS[0] if self._worked else min(2 * pause, PAUSE_SECONDS[1])
        finally:
            ended.cancel()
            self._server.stop()
            self._control.stop()
            await self._end_all()

    def _haproxies_run(self) -> bool:
        return any(
            status.ended is None
            for process in self._control.processes.values()
            if (status := process.status) is not None
        )

    async def _until_the_agent_ends(self, ended: asyncio.Task[str]) -> int:
        """Run one agent. Returns its exit status; or when a HAProxy has ended, which ends it all."""
        more = {DRAINING_SINCE: str(self._draining)} if self._health.draining else {}
        self._spoke = self._worked = False
        self._started = time.monotonic()
        agent = self._agent = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            child.__file__,
            str(os.getpid()),
            *self._supervised.agent,
            env={**os.environ, **more},
        )
        if self._health.draining and not more:
            agent.send_signal(signal.SIGTERM)
        await _first(agent.wait(), self._hangs(), ended)
        if agent.returncode is None and not ended.done():
            log.error("the agent hangs: it is killed", pid=agent.pid)
            agent.kill()
        if not ended.done():
            await agent.wait()
        self._health.forget()
        return agent.returncode if agent.returncode is not None else 1

    async def _hangs(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            since = self._health.heard if self._spoke else self._started
            if time.monotonic() - since > (HANG_SECONDS if self._spoke else START_SECONDS):
                return

    def _beat(self, said: Mapping[str, Any]) -> None:
        # Words of an agent before this one may still be on their way.
        if self._agent is not None and said["pid"] == self._agent.pid:
            self._spoke = True
            self._worked = self._worked or not said["unready"]
            self._health.beat(said)

    async def _let_finish(self) -> int:
        """The agent has ended while HAProxy let its last requests finish: wait for them in its place."""
        processes = self._control.processes.values()
        for process in processes:
            await process.signal(signal.SIGUSR1)
        left = self._draining + self._supervised.end_seconds - time.monotonic()
        try:
            async with asyncio.timeout(left if left > 0 else 0):
                await asyncio.gather(*(process.wait() for process in processes))
        except TimeoutError:
            log.warning("ended before everybody had finished")
        return 0

    async def _end_all(self) -> None:
        if self._agent is not None and self._agent.returncode is None:
            self._agent.kill()
            await self._agent.wait()
        for process in self._control.processes.values():
            await process.signal(signal.SIGKILL)
            if process.status is not None:
                await process.wait()


async def _first(*waits: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Wait for one of them; coroutines are cancelled then, tasks are not."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, wait in zip(tasks, waits, strict=True):
        if task is not wait:
            task.cancel()
