"""HAProxy that is started from a configuration file, or adopted, and controlled over its socket."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from daybreak.gateway.haproxy.processes import GatewayFailed, HaproxyHangs, OwnProcess, Process
from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

_LOOK = 0.05
"""Seconds between two checks of a starting HAProxy."""


class Haproxy:
    """One HAProxy.

    Args:
        file: Configuration file.
        socket: Admin socket, as in the configuration.
        process: HAProxy's process. Defaults to a child process of this program.
    """

    def __init__(self, file: Path, socket: Path, process: Process | None = None) -> None:
        self.api = RuntimeApi(socket)
        self._file = file
        self._socket = socket
        self._process = process or OwnProcess()
        self._pid = 0

    @property
    def pid(self) -> int:
        """Process ID. Raises GatewayFailed if there is no process."""
        if not self._pid:
            raise GatewayFailed("HAProxy has not been started")
        return self._pid

    async def runs(self) -> bool:
        """Return True if the process runs. Raises GatewayFailed if that is unknown."""
        status = await self._process.look()
        return status is not None and status.ended is None

    async def stopping(self) -> bool:
        """Return True if the process is stopping. Raises GatewayFailed if that is unknown."""
        status = await self._process.look()
        return status is not None and status.stopping

    async def adopt(self, seconds: float) -> bool:
        """Adopt the running process. Returns False if there is none.

        Raises HaproxyHangs if it does not respond.
        """
        status = await self._process.look()
        if status is None or status.ended is not None:
            return False
        self._pid = status.pid
        try:
            async with asyncio.timeout(seconds):
                await self.api.connect()
        except (TimeoutError, RuntimeApiError) as error:
            raise HaproxyHangs(f"HAProxy runs and does not answer: {error!r}") from error
        return True

    async def start(self, seconds: float) -> None:
        """Start HAProxy and wait until it listens. Raises GatewayFailed with its output."""
        self._socket.unlink(missing_ok=True)
        await self._process.start(self._file)
        try:
            async with asyncio.timeout(seconds):
                while not await self._answers():
                    status = await self._process.look()
                    if status is None or status.ended is not None:
                        raise GatewayFailed(f"HAProxy did not start: {await self._last_words()}")
                    self._pid = status.pid
                    await asyncio.sleep(_LOOK)
        except TimeoutError as error:
            await self.kill()
            raise GatewayFailed(f"HAProxy did not answer within {seconds:g} s") from error
        status = await self._process.look()
        self._pid = status.pid if status is not None else 0

    async def wait(self) -> int:
        """Wait until HAProxy ends and return its exit status (negative: the signal)."""
        return await self._process.wait()

    async def stop(self, graceful: float, until: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Refuse new connections and let current requests finish for `graceful` seconds.

        Returns True if all did.

        `until` is awaited before `api` is closed. Raises RuntimeApiError if `api` cannot connect for it.
        """
        if not await self.runs():
            return True
        if until is not None:
            # A stopping HAProxy closes its admin socket, and keeps established connections.
            await self.api.connect()
        else:
            self.api.close()
        await self._process.signal(signal.SIGUSR1)
        try:
            async with asyncio.timeout(graceful):
                if until is not None:
                    await until()
                    # HAProxy waits for this connection too.
                    self.api.close()
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            return False
        return True

    async def kill(self) -> None:
        """Kill HAProxy immediately; current requests are cut."""
        self.api.close()
        if await self._process.look() is not None:
            await self._process.signal(signal.SIGKILL)
            await self._process.wait()

    async def _last_words(self) -> str:
        await self._process.wait()
        status = await self._process.look()
        return status.words if status is not None else ""

    async def _answers(self) -> bool:
        try:
            await self.api.connect()
        except RuntimeApiError:
            return False
        return True
