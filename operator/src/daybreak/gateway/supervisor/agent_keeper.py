"""Keeps an agent at work: one that dies or hangs is replaced at once.

The kubelet would wait before it starts a container again, up to 5 minutes, and no gate would move meanwhile.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

import structlog

from daybreak.gateway.environment import DRAINING_SINCE, WATCHDOG
from daybreak.gateway.haproxy import child

HANG_SECONDS = 20.0
"""An agent that says nothing for so long hangs: it speaks every second."""
START_SECONDS = 120.0
"""How long a new agent may take to its first word."""
PAUSE_SECONDS = (0.1, 10.0)
"""Between two agents, doubling for as long as none of them comes to work."""
INVALID = 2
"""Exit status of an agent whose settings mean nothing: another one would fare no better."""
_LOOK = 0.5

log = structlog.get_logger("daybreak.gateway.keeper")


class AgentKeeper:
    """Starts one agent after the other. It reads nothing of what they may read."""

    def __init__(self) -> None:
        self._agent: asyncio.subprocess.Process | None = None
        self._heard = 0.0
        """When the agent that runs was started, or has said something last."""
        self._spoke = False
        """Whether it has said something."""
        self._worked = False
        """Whether it has come to work."""
        self._draining: float | None = None

    def drain(self) -> None:
        """The pod is to end: so is the agent, when those have finished who are here."""
        if self._draining is None:
            self._draining = time.monotonic()
        if self._agent is not None and self._agent.returncode is None:
            self._agent.send_signal(signal.SIGTERM)

    async def run(self) -> int:
        """Run until told to end and an agent has done what is to be done. Returns the exit status."""
        pause = PAUSE_SECONDS[0]
        while True:
            status = await self._one()
            if status == INVALID or (status == 0 and self._draining is not None):
                return status
            pause = PAUSE_SECONDS[0] if self._worked else min(2 * pause, PAUSE_SECONDS[1])
            if status == 0:
                log.info("the agent has ended with the HAProxies: the next one waits for others")
            else:
                log.error("the agent has ended: HAProxy goes on", status=status, again_seconds=pause)
            await asyncio.sleep(pause)

    async def _one(self) -> int:
        """Run one agent. Returns its exit status (negative: the signal)."""
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        loop.add_reader(reading, self._hear, reading)
        try:
            agent = await self._start(writing)
        finally:
            os.close(writing)
        try:
            await _first(agent.wait(), self._hangs())
            if agent.returncode is None:
                log.error("the agent hangs: it is killed", pid=agent.pid)
                agent.kill()
            return await agent.wait()
        finally:
            loop.remove_reader(reading)
            os.close(reading)

    async def _start(self, writing: int) -> asyncio.subprocess.Process:
        draining = self._draining
        more = {DRAINING_SINCE: str(draining)} if draining is not None else {}
        self._spoke = self._worked = False
        self._heard = time.monotonic()
        command = (sys.executable, "-m", "daybreak.gateway.agent")
        agent = self._agent = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            child.__file__,
            str(os.getpid()),
            *command,
            env={**os.environ, WATCHDOG: str(writing), **more},
            pass_fds=[writing],
        )
        if self._draining != draining:
            agent.send_signal(signal.SIGTERM)
        return agent

    def _hear(self, reading: int) -> None:
        words = os.read(reading, 4096)
        if not words:  # it has ended
            asyncio.get_running_loop().remove_reader(reading)
            return
        self._heard = time.monotonic()
        self._spoke = True
        self._worked = self._worked or b"1" in words

    async def _hangs(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if time.monotonic() - self._heard > (HANG_SECONDS if self._spoke else START_SECONDS):
                return


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait for one of them; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
