"""Keeps an agent at work: one that dies or hangs is replaced at once.

The kubelet would wait before it starts a container again, up to 5 minutes, and no gate would move meanwhile.
Without asyncio, which takes 4 MiB: there is one process to look at, and one pipe.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

from daybreak.gateway.environment import DRAINING_SINCE, WATCHDOG
from daybreak.gateway.haproxy import CHILD

HANG_SECONDS = 20.0
"""An agent that says nothing for so long hangs: it speaks every second."""
START_SECONDS = 120.0
"""How long a new agent may take to its first word."""
PAUSE_SECONDS = (0.1, 10.0)
"""Between two agents, doubling for as long as none of them comes to work."""
INVALID = 2
"""Exit status of an agent whose settings mean nothing: another one would fare no better."""
_LOOK = 0.5

log = logging.getLogger("daybreak.gateway.keeper")


class AgentKeeper:
    """Starts one agent after the other. It reads nothing of what they may read."""

    def __init__(self) -> None:
        self._heard = 0.0
        """When the agent that runs was started, or has said something last."""
        self._spoke = False
        """Whether it has said something."""
        self._worked = False
        """Whether it has come to work."""
        self._draining: float | None = None
        self._woken, self._waking = os.pipe()
        """Where a signal's handler wakes what waits for words of the agent."""

    def drain(self) -> None:
        """The pod is to end: so is the agent, when those have finished who are here. A signal may call it."""
        if self._draining is None:
            self._draining = time.monotonic()
            os.write(self._waking, b".")

    def run(self) -> int:
        """Run until told to end and an agent has done what is to be done. Returns the exit status."""
        pause = PAUSE_SECONDS[0]
        while True:
            status = self._one()
            if status == INVALID or (status == 0 and self._draining is not None):
                return status
            pause = PAUSE_SECONDS[0] if self._worked else min(2 * pause, PAUSE_SECONDS[1])
            if status == 0:
                log.info("the agent has ended with the HAProxies: the next one waits for others")
            else:
                said = {"status": status, "again_seconds": pause}
                log.error("the agent has ended: HAProxy goes on", extra=said)
            time.sleep(pause)

    def _one(self) -> int:
        """Run one agent. Returns its exit status (negative: the signal)."""
        draining = self._draining
        reading, writing = os.pipe()
        try:
            agent = self._start(writing, draining)
        finally:
            os.close(writing)
        try:
            self._listen(agent, reading, told=draining is not None)
        finally:
            os.close(reading)
        if agent.poll() is None:
            log.error("the agent hangs: it is killed", extra={"pid": agent.pid})
            agent.kill()
        return agent.wait()

    def _start(self, writing: int, draining: float | None) -> "subprocess.Popen[bytes]":
        more = {DRAINING_SINCE: str(draining)} if draining is not None else {}
        self._spoke = self._worked = False
        self._heard = time.monotonic()
        command = (sys.executable, "-m", "daybreak.gateway.agent")
        return subprocess.Popen(  # noqa: S603 -- our own program
            [sys.executable, "-I", CHILD, str(os.getpid()), *command],
            env={**os.environ, WATCHDOG: str(writing), **more},
            pass_fds=[writing],
        )

    def _listen(self, agent: "subprocess.Popen[bytes]", reading: int, told: bool) -> None:
        """Hear the agent until it ends or hangs. `told`: it knows that the pod is to end."""
        sources = [reading, self._woken]
        while agent.poll() is None and not self._hangs:
            ready, _, _ = select.select(sources, [], [], _LOOK)
            if self._woken in ready:
                os.read(self._woken, 1)
            if reading in ready and not self._hear(reading):
                # It has ended, or will within a moment.
                sources.remove(reading)
                with suppress(subprocess.TimeoutExpired):
                    agent.wait(_LOOK)
            if self._draining is not None and not told:
                told = True
                agent.send_signal(signal.SIGTERM)

    def _hear(self, reading: int) -> bool:
        """Take in what the agent says. Returns False when it will say nothing any more."""
        words = os.read(reading, 4096)
        if words:
            self._heard = time.monotonic()
            self._spoke = True
            self._worked = self._worked or b"1" in words
        return bool(words)

    @property
    def _hangs(self) -> bool:
        """Whether it has been silent for too long."""
        return time.monotonic() - self._heard > (HANG_SECONDS if self._spoke else START_SECONDS)
