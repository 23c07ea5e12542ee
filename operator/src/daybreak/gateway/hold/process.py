"""HAProxy process that holds requests: start, configuration and stop."""

import asyncio
import resource
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy import info
from daybreak.gateway.haproxy.info import Connections
from daybreak.gateway.haproxy.processes import Process
from daybreak.gateway.haproxy.program import Haproxy
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.config import GatewayConfig, render
from daybreak.gateway.hold.departures import TCP, TCP6, Departures
from daybreak.gateway.hold.servers import Server, Servers
from daybreak.gateway.hold.table import Gate, Slot, Snapshot
from daybreak.gateway.responses import responses

_LOOK = 0.05
"""Seconds between two checks of a stopping HAProxy."""

_SWEEP = 0.5
"""Seconds between two checks for departed held clients."""

_LAST_LOOK = 0.02
"""Maximum seconds for which a gate waits, before it opens, for a last check for departed clients. On a busy
machine the check takes longer; it then continues and stops the departed requests that are released later."""

_MOST_MOVED = 40
"""Maximum number of backends that one command names; HAProxy accepts 64 words."""

log = structlog.get_logger("daybreak.gateway")


def own_backend(slot: int) -> str:
    """Return the name of a service's own backend in HAProxy."""
    return f"s{slot}"


def model_backend(number: int) -> str:
    """Return the name of a backend for one of several gates of a service."""
    return f"m{number}"


@dataclass(frozen=True)
class Kept:
    """Memory that the gateway keeps for clients."""

    held_bytes: int
    """Bytes of held requests, as far as they are counted."""


class Known(NamedTuple):
    """Gate that a previous agent configured in HAProxy."""

    backend: str
    port: int
    """Port of the gate's service."""
    uid: str
    service: str
    model: str
    front: bool
    gone: bool
    """True if the gate was removed; its last stream may continue."""


class Gateway:
    """Data path of one gateway pod.

    Args:
        config: Settings of the gateway.
        process: HAProxy's process. Defaults to a child process of this program.
    """

    def __init__(self, config: GatewayConfig, process: Process | None = None) -> None:
        self.config = config
        self._haproxy = Haproxy(config.file, config.socket, process)
        self._api = self._haproxy.api
        self._servers = Servers(self._api)
        self._departures = Departures(self._api, TCP6 if ":" in config.address else TCP)
        self._sweeper: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Process ID of HAProxy. Raises GatewayFailed if there is no process."""
        return self._haproxy.pid

    async def runs(self) -> bool:
        """Return True if HAProxy runs. Raises GatewayFailed if that is unknown."""
        return await self._haproxy.runs()

    async def adopt(self, seconds: float = 30) -> bool:
        """Adopt the running HAProxy. Returns False if there is none.

        Raises HaproxyHangs if HAProxy runs and does not respond.
        """
        if not await self._haproxy.adopt(seconds):
            return False
        self._sweeper = asyncio.create_task(self._sweep())
        return True

    async def read_back(self) -> tuple[list[Known], Collection[str]]:
        """Return the gates of an adopted HAProxy and the backends that have servers.

        Raises RuntimeApiError.
        """
        rows = (await self._api.json("daybreak known"))["gates"]
        return [Known(**row) for row in rows], await self._servers.read_back()

    async def start(self, seconds: float = 30) -> None:
        """Start HAProxy and wait until it listens.

        Raises GatewayFailed with HAProxy's output, and ValueError if too few open files are allowed.
        """
        self.config.folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        # HAProxy raises its own limit up to the hard limit only.
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        config = self.config if descriptors == resource.RLIM_INFINITY else self.config.fitting(descriptors)
        if config != self.config:
            log.warning(
                "Limited connections by open files", allowed=descriptors, connections=config.max_connections
            )
        self.config.file.write_text(render(config))
        self.config.maps.empty()
        self.config.fields.write_text(fields.lua())
        self.config.responses.write_text(responses.lua())
        self._servers.forget()
        await self._haproxy.start(seconds)
        self._sweeper = asyncio.create_task(self._sweep())

    async def set_gate(self, backend: str, slot: Slot) -> None:
        """Set the state of a gate, which is acknowledged from then on. Raises RuntimeApiError."""
        if slot.gate is Gate.OPEN:
            self._looking = asyncio.create_task(self._look_for_departed(backend))
            await asyncio.wait([self._looking], timeout=_LAST_LOOK)
        await self._api.expect(f"daybreak set {backend} {slot.words()}", "ok")

    async def notified_all(self) -> None:
        """Mark all services as configured, so that no request waits for an unknown one.

        Raises RuntimeApiError.
        """
        await self._api.expect("daybreak ready", "ok")

    async def remove_gate(self, backend: str) -> None:
        """Remove the gate of a deleted model; its held requests receive 404. Raises RuntimeApiError.

        Its streams continue, and snapshots include the gate until it is unset.
        """
        await self._api.expect(f"daybreak remove {backend}", "ok")

    async def unset_gate(self, backend: str) -> None:
        """Remove the gate of a deleted service; its held and new requests receive 404.

        Raises RuntimeApiError.
        """
        await self._api.expect(f"daybreak unset {backend}", "ok")
        await self._servers.set(backend, ())

    async def set_servers(self, backend: str, servers: Collection[Server]) -> None:
        """Set the servers of a gate's backend. Raises RuntimeApiError."""
        await self._servers.set(backend, servers)

    async def remove_left_servers(self, backend: str) -> bool:
        """Remove servers whose last stream has ended. Returns True if such a server still has streams."""
        return await self._servers.remove_left(backend)

    async def empty(self, backend: str) -> bool:
        """Remove the servers of a backend. Returns True if its last request has ended.

        Raises RuntimeApiError.
        """
        await self._servers.set(backend, ())
        left = await self._servers.remove_left(backend)
        return not left and await self._api.command(f"daybreak streams {backend}") == "0"

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of all gates. Raises RuntimeApiError."""
        return Snapshot.parse(await self._api.json("daybreak show"))

    async def changes(self, since: int) -> tuple[int, Snapshot]:
        """Return the next sequence number, and the gates that changed or have requests in flight.

        Gates whose requests go to other RayClusters than last reported are included. Zero requests all gates,
        as does a number from before HAProxy's last restart. A growing `idle_ms` is not a change. A gate that
        was unset is never included. Raises RuntimeApiError.
        """
        moved = sorted(self._servers.moved)[:_MOST_MOVED]
        found = await self._api.json(" ".join(["daybreak show changed", str(since), *moved]))
        self._servers.moved.difference_update(moved)
        snapshot = Snapshot.parse(found)
        slots = {
            backend: replace(state, clusters=self._servers.clusters(backend))
            for backend, state in snapshot.slots.items()
        }
        return found["sequence"], replace(snapshot, slots=slots)

    async def kept(self) -> Kept:
        """Return the memory that the gateway keeps for clients. Raises RuntimeApiError."""
        found = await self._api.json("daybreak kept")
        return Kept(held_bytes=found["held_bytes"])

    async def connections(self) -> Connections:
        """Return the numbers of client connections. Raises RuntimeApiError."""
        return await info.connections(self._api)

    async def set_short(self, short: bool, full: bool = False) -> None:
        """Set whether the gateway is short of capacity: clients with many connections then get no more.

        If it is full, only clients with hardly any connections get more. Raises RuntimeApiError.
        """
        await info.set_flags(self._api, self.config.maps.short, *info.shortage(short, full))

    async def set_closing(self) -> None:
        """Announce the end of the connection in each further response. Raises RuntimeApiError."""
        await info.set_flags(self._api, self.config.maps.closing, info.SET)

    async def clients(self) -> int:
        """Return the number of client connections, those of the router included. Raises RuntimeApiError."""
        return await info.clients(self._api, "services")

    async def wait(self) -> int:
        """Wait until HAProxy ends and return its exit status (negative: the signal)."""
        return await self._haproxy.wait()

    async def stop(self, graceful: float) -> bool:
        """Stop HAProxy: refuse new connections, and let all requests finish for `graceful` seconds.

        The gates can be changed during that time. Returns True if all requests finished.
        """
        finished = await self._haproxy.stop(graceful, self._everybody_left)
        await self._look_no_more()
        return finished

    async def leave(self) -> None:
        """Disconnect from HAProxy, which continues to run if its process is not a child of this program."""
        await self._look_no_more()
        self._api.close()

    async def kill(self) -> None:
        """Kill HAProxy immediately; held and running requests are cut."""
        await self._look_no_more()
        await self._haproxy.kill()

    async def _everybody_left(self) -> None:
        while True:
            try:
                snapshot = await self.snapshot()
            except RuntimeApiError:
                return
            if not any(state.held or state.in_flight for state in snapshot.slots.values()):
                return
            await asyncio.sleep(_LOOK)

    async def _look_for_departed(self, backend: str = "") -> None:
        try:
            await self._departures.look(backend)
        except (OSError, RuntimeApiError) as error:
            # If the check fails, only clients that HAProxy notices itself are detected. A stopping HAProxy
            # cannot be queried.
            log.debug("Failed to check for disconnected clients", error=str(error))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            await self._look_for_departed()

    async def _look_no_more(self) -> None:
        for task in (self._sweeper, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
