"""Keeper of the agent: it immediately replaces an agent that dies or hangs.

The kubelet would wait up to 5 minutes before it restarts a container, and no gate would change until then.
The keeper avoids asyncio, which takes 4 MiB: it watches one process and one pipe.
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
"""Seconds without a heartbeat after which an agent hangs; it sends one every second."""
START_SECONDS = 120.0
"""Maximum seconds until the first heartbeat of a new agent."""
PAUSE_SECONDS = (0.1, 10.0)
"""Minimum and maximum pause between two agents, in seconds; it doubles until an agent becomes ready."""
INVALID = 2
"""Exit status of an agent with invalid settings, which a restart does not fix."""
_LOOK = 0.5

log = logging.getLogger("daybreak.gateway.keeper")


class AgentKeeper:
    """Starter of one agent after the other. It reads nothing that agents may read."""

    def __init__(self) -> None:
        self._received = 0.0
        """Start time of the running agent, or time of its latest heartbeat."""
        self._spoke = False
        """True if the agent has sent a heartbeat."""
        self._worked = False
        """True if the agent has been ready."""
        self._draining: float | None = None
        self._woken, self._waking = os.pipe()
        """Pipe by which a signal handler wakes the wait for heartbeats."""

    def drain(self) -> None:
        """End the agent when its current requests have finished, because the pod terminates.

        Safe in a signal handler.
        """
        if self._draining is None:
            self._draining = time.monotonic()
            os.write(self._waking, b".")

    def run(self) -> int:
        """Run until the pod's termination and the end of an agent. Returns the exit status."""
        pause = PAUSE_SECONDS[0]
        while True:
            status = self._one()
            if status == INVALID or (status == 0 and self._draining is not None):
                return status
            pause = PAUSE_SECONDS[0] if self._worked else min(2 * pause, PAUSE_SECONDS[1])
            if status == 0:
                log.info("Agent ended with the HAProxies, the next agent waits for new ones")
            else:
                message = {"status": status, "again_seconds": pause}
                log.error("Agent ended, HAProxy continues", extra=message)
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
            self._listen(agent, reading, reported=draining is not None)
        finally:
            os.close(reading)
        if agent.poll() is None:
            log.error("Agent hung, killing it", extra={"pid": agent.pid})
            agent.kill()
        return agent.wait()

    def _start(self, writing: int, draining: float | None) -> "subprocess.Popen[bytes]":
        more = {DRAINING_SINCE: str(draining)} if draining is not None else {}
        self._spoke = self._worked = False
        self._received = time.monotonic()
        command = (sys.executable, "-m", "daybreak.gateway.agent")
        return subprocess.Popen(  # noqa: S603 -- our own program
            [sys.executable, "-I", CHILD, str(os.getpid()), *command],
            env={**os.environ, WATCHDOG: str(writing), **more},
            pass_fds=[writing],
        )

    def _listen(self, agent: "subprocess.Popen[bytes]", reading: int, reported: bool) -> None:
        """Read heartbeats until the agent ends or hangs. `told`: the agent knows that the pod terminates."""
        sources = [reading, self._woken]
        while agent.poll() is None and not self._hangs:
            ready, _, _ = select.select(sources, [], [], _LOOK)
            if self._woken in ready:
                os.read(self._woken, 1)
            if reading in ready and not self._receive(reading):
                # It has ended, or will shortly.
                sources.remove(reading)
                with suppress(subprocess.TimeoutExpired):
                    agent.wait(_LOOK)
            if self._draining is not None and not reported:
                reported = True
                agent.send_signal(signal.SIGTERM)

    def _receive(self, reading: int) -> bool:
        """Read heartbeats of the agent. Returns False if it will send no more."""
        words = os.read(reading, 4096)
        if words:
            self._received = time.monotonic()
            self._spoke = True
            self._worked = self._worked or b"1" in words
        return bool(words)

    @property
    def _hangs(self) -> bool:
        """True if the agent has been silent for too long."""
        return time.monotonic() - self._received > (HANG_SECONDS if self._spoke else START_SECONDS)
