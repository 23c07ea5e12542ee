"""The HAProxy that holds: started, programmed, stopped."""

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
"""Seconds between two looks at a HAProxy that stops."""

_SWEEP = 0.5
"""Seconds between two looks at who has left while held."""

_LAST_LOOK = 0.02
"""Seconds that a gate may wait, before it opens, for a last look at who has left. On a busy machine the look
takes longer; it goes on then, and holds back those whose turn comes later."""

_MOST_MOVED = 40
"""Backends that are asked for by name in one command: HAProxy takes 64 words."""

log = structlog.get_logger("daybreak.gateway")


def own_backend(slot: int) -> str:
    """Name of a service's own backend in HAProxy."""
    return f"s{slot}"


def model_backend(number: int) -> str:
    """Name of a backend for one of several gates of a service."""
    return f"m{number}"


@dataclass(frozen=True)
class Kept:
    """What is kept for clients."""

    held_bytes: int
    """What held requests take, as far as it is counted."""


class Known(NamedTuple):
    """A gate that HAProxy has been told of by whoever programmed it before."""

    backend: str
    port: int
    """Its service's."""
    uid: str
    service: str
    model: str
    front: bool
    gone: bool
    """Whether it was removed, and its last stream may go on."""


class Gateway:
    """The data path of one gateway pod.

    Args:
        config: What is set of it.
        process: HAProxy's process; one of our own, unless somebody else starts it.
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
        """HAProxy's process. Raises GatewayFailed when there is none."""
        return self._haproxy.pid

    async def runs(self) -> bool:
        """Whether HAProxy is there. Raises GatewayFailed when nobody can say."""
        return await self._haproxy.runs()

    async def adopt(self, seconds: float = 30) -> bool:
        """Take over the HAProxy that runs. Returns False when there is none.

        Raises HaproxyHangs when there is one that does not answer.
        """
        if not await self._haproxy.adopt(seconds):
            return False
        self._sweeper = asyncio.create_task(self._sweep())
        return True

    async def read_back(self) -> tuple[list[Known], Collection[str]]:
        """What an adopted HAProxy has been told: its gates, and the backends that have servers.

        Raises RuntimeApiError.
        """
        rows = (await self._api.json("daybreak known"))["gates"]
        return [Known(**row) for row in rows], await self._servers.read_back()

    async def start(self, seconds: float = 30) -> None:
        """Start HAProxy and wait until it listens.

        Raises GatewayFailed with what HAProxy said, and ValueError when too few open files are allowed.
        """
        self.config.folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        # HAProxy raises its own limit up to the hard one, and no further.
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        config = self.config if descriptors == resource.RLIM_INFINITY else self.config.fitting(descriptors)
        if config != self.config:
            log.warning("few open files are allowed", allowed=descriptors, connections=config.max_connections)
        self.config.file.write_text(render(config))
        self.config.maps.empty()
        self.config.fields.write_text(fields.lua())
        self.config.responses.write_text(responses.lua())
        self._servers.forget()
        await self._haproxy.start(seconds)
        self._sweeper = asyncio.create_task(self._sweep())

    async def set_gate(self, backend: str, slot: Slot) -> None:
        """Say how a gate is to be treated; acknowledged from here on. Raises RuntimeApiError."""
        if slot.gate is Gate.OPEN:
            self._looking = asyncio.create_task(self._look_for_departed(backend))
            await asyncio.wait([self._looking], timeout=_LAST_LOOK)
        await self._api.expect(f"daybreak set {backend} {slot.words()}", "ok")

    async def told_all(self) -> None:
        """Say that every service has been told: nobody waits for an unknown one. Raises RuntimeApiError."""
        await self._api.expect("daybreak ready", "ok")

    async def remove_gate(self, backend: str) -> None:
        """The model has gone: requests held for it are answered 404. Raises RuntimeApiError.

        Its streams go on, and it is told of until it is unset.
        """
        await self._api.expect(f"daybreak remove {backend}", "ok")

    async def unset_gate(self, backend: str) -> None:
        """Its service has gone: requests that are held or come are answered 404. Raises RuntimeApiError."""
        await self._api.expect(f"daybreak unset {backend}", "ok")
        await self._servers.set(backend, ())

    async def set_servers(self, backend: str, servers: Collection[Server]) -> None:
        """Say which servers a gate's backend has. Raises RuntimeApiError."""
        await self._servers.set(backend, servers)

    async def remove_left_servers(self, backend: str) -> bool:
        """Remove servers whose last stream has ended. Returns whether one is still there."""
        return await self._servers.remove_left(backend)

    async def empty(self, backend: str) -> bool:
        """Take the servers from a backend. Returns whether its last request has ended.

        Raises RuntimeApiError.
        """
        await self._servers.set(backend, ())
        left = await self._servers.remove_left(backend)
        return not left and await self._api.command(f"daybreak streams {backend}") == "0"

    async def snapshot(self) -> Snapshot:
        """All gates at one moment. Raises RuntimeApiError."""
        return Snapshot.parse(await self._api.json("daybreak show"))

    async def changes(self, since: int) -> tuple[int, Snapshot]:
        """The gates that changed since that number, or have requests in flight, and the next number.

        Those whose requests go to other RayClusters than was told last belong to them. Zero asks for all, as
        does a number from before HAProxy was started anew. That `idle_ms` grows is no change. A gate that was
        unset is in no answer. Raises RuntimeApiError.
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
        """What is kept for clients. Raises RuntimeApiError."""
        found = await self._api.json("daybreak kept")
        return Kept(held_bytes=found["held_bytes"])

    async def connections(self) -> Connections:
        """Connections of clients. Raises RuntimeApiError."""
        return await info.connections(self._api)

    async def set_short(self, short: bool, full: bool = False) -> None:
        """Say whether the gateway is short of room: clients with many connections get no more then.

        If it is full, only clients with hardly any do. Raises RuntimeApiError.
        """
        await info.set_flags(self._api, self.config.maps.short, *info.shortage(short, full))

    async def set_closing(self) -> None:
        """Announce the end of its connection in each response from here on. Raises RuntimeApiError."""
        await info.set_flags(self._api, self.config.maps.closing, info.SET)

    async def clients(self) -> int:
        """Return the number of client connections, those of the router included. Raises RuntimeApiError."""
        return await info.clients(self._api, "services")

    async def wait(self) -> int:
        """Wait for HAProxy's end and return its exit status (negative: the signal)."""
        return await self._haproxy.wait()

    async def stop(self, graceful: float) -> bool:
        """End HAProxy: no new connections; what is held or streams may finish, for so many seconds.

        The gates can be moved meanwhile. Returns whether everybody could finish.
        """
        finished = await self._haproxy.stop(graceful, self._everybody_left)
        await self._look_no_more()
        return finished

    async def leave(self) -> None:
        """Let go of HAProxy, which lives on if its process is not ours."""
        await self._look_no_more()
        self._api.close()

    async def kill(self) -> None:
        """End HAProxy at once: what is held or streams is cut."""
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
            # Without it, what HAProxy notices itself must do. While it ends it cannot be asked.
            log.debug("no look at who has left", error=str(error))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            await self._look_for_departed()

    async def _look_no_more(self) -> None:
        for task in (self._sweeper, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
