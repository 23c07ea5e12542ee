"""Common address of the namespace: each request is forwarded to the service of its model.

Two HAProxies do this. Clients reach the one with small buffers, which finds the model in the beginning of a
body. The other one has buffers for whole bodies, and one budget for their content; no client reaches it.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

import structlog

from daybreak.gateway.haproxy import info
from daybreak.gateway.haproxy.info import Connections
from daybreak.gateway.haproxy.processes import Process
from daybreak.gateway.haproxy.program import Haproxy
from daybreak.gateway.responses import responses
from daybreak.gateway.router import external, pieces
from daybreak.gateway.router import shares as sharing
from daybreak.gateway.router.config import LATE_TEMPLATE, RouterConfig, render
from daybreak.gateway.router.external import External
from daybreak.gateway.router.shares import Share
from daybreak.protocol.tallies import RouteTally, Tallies, added

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True, slots=True)
class Route:
    """Destination of the requests for one model."""

    port: int
    """Port of the service in the HAProxy that holds."""
    service: str
    """Name of the service, for the log."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of the API keys that may use the model, in hexadecimal. Only clients with such a key
    see the model's name. With none all clients see it."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may read the model's responses in a browser; `*`: all."""


@dataclass(frozen=True)
class Kept:
    """Memory of large bodies and their responses."""

    bytes: int
    """Bytes of all clients."""
    sources: Mapping[str, int]
    """Bytes of each client, by address."""


class Router:
    """Router of requests to services by their model.

    Args:
        config: Settings of the router.
        process: Process that clients reach. Defaults to a child process of this program.
        late_process: Process with large buffers. Defaults to a child process as well.
    """

    def __init__(
        self, config: RouterConfig, process: Process | None = None, late_process: Process | None = None
    ) -> None:
        self.config = config
        self._haproxy = Haproxy(config.file, config.socket, process)
        self._late = Haproxy(config.late_file, config.late_admin, late_process)
        self._stopping = False
        # In the order of their start: the late one has no client until the other one runs.
        self._both = (self._late, self._haproxy)

    @property
    def pid(self) -> int:
        """Process ID of the HAProxy that clients reach. Raises GatewayFailed if there is none."""
        return self._haproxy.pid

    @property
    def late_pid(self) -> int:
        """Process ID of the HAProxy with large buffers. Raises GatewayFailed if there is none."""
        return self._late.pid

    async def adopt(self, seconds: float = 30) -> bool:
        """Adopt the running HAProxies with their state. Returns False if one of them is missing.

        If the HAProxy that clients reach is already stopping, it stays as it is. Raises HaproxyHangs if one
        does not respond.
        """
        self._stopping = await self._haproxy.stopping()
        parts = [self._late] if self._stopping else self._both
        return all([await each.adopt(seconds) for each in parts])

    async def start(self, seconds: float = 30) -> None:
        """Start both HAProxies, without models, and wait until they listen. Raises GatewayFailed."""
        self.config.folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        config = self.config
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors != resource.RLIM_INFINITY and descriptors < config.descriptors:
            other = config.descriptors - 2 * config.max_connections
            config = replace(config, max_connections=max(1, (descriptors - other) // 2))
            log.warning(
                "Limited connections by open files", allowed=descriptors, connections=config.max_connections
            )
        config.short_map.write_text("")
        config.closing_map.write_text("")
        config.responses.write_text(responses.lua())
        config.file.write_text(render(config))
        config.keys_map.write_text("")
        config.origins_map.write_text("")
        config.models_map.write_text("")
        config.late_file.write_text(render(config, LATE_TEMPLATE))
        # A previous agent may have ended between the two starts.
        if not await self._late.adopt(seconds):
            await self._late.start(seconds)
        await self._haproxy.start(seconds)

    async def set_routes(self, routes: Mapping[str, Route], shares: Collection[Share] = ()) -> None:
        """Set the destinations of requests for each model, and for names that several models share.

        Requests for other names are rejected. Raises RuntimeApiError.
        """
        for each in self._both:
            message = pieces.commands("set", words(routes)) + pieces.commands("share", sharing.words(shares))
            for command in message:
                await each.api.expect(command, "ok")

    async def set_externals(self, externals: Collection[External]) -> None:
        """Set the models outside the cluster. Raises RuntimeApiError."""
        for each in self._both:
            await external.notify(each.api, externals)

    async def shares(self) -> Mapping[str, Mapping[str, int]]:
        """Return the requests of each route to each of its models, as `service/model`, since HAProxy started.

        Raises RuntimeApiError.
        """
        found: dict[str, Counter[str]] = {}
        for each in self._both:
            for route, counts in (await each.api.json("router shares")).items():
                counted = found.setdefault(unquote(route), Counter())
                for way, count in counts.items():
                    counted[_unquoted(way)] += count
        return found

    async def tallies(self) -> Tallies:
        """Return the counts of each route's backends since the start time in its status.

        Raises RuntimeApiError.
        """
        found: dict[str, list[RouteTally]] = {}
        for each in self._both:
            for route, row in (await each.api.json("router tallies")).items():
                reported = RouteTally.parse(row)
                ways = {_unquoted(way): tally for way, tally in reported.backends.items()}
                found.setdefault(unquote(route), []).append(RouteTally(unquote(reported.since), ways))
        both = {route: added(tallies) for route, tallies in found.items()}
        return {route: tally for route, tally in both.items() if tally is not None}

    async def look(self) -> None:
        """Probe both HAProxies and wait for their responses. Raises RuntimeApiError."""
        await self._haproxy.api.command("router ping")
        await self.kept()

    async def kept(self) -> Kept:
        """Return the memory of large bodies and their responses. Raises RuntimeApiError."""
        found = await self._late.api.json("late show")
        return Kept(bytes=found["bytes"], sources=found["sources"])

    async def connections(self) -> Connections:
        """Return the numbers of client connections. Raises RuntimeApiError."""
        return await info.connections(self._haproxy.api)

    async def set_short(self, short: bool, full: bool = False) -> None:
        """Set whether the gateway is short of capacity, as in the HAProxy that holds.

        Raises RuntimeApiError.
        """
        await info.set_flags(self._haproxy.api, self.config.short_map, *info.shortage(short, full))

    async def set_closing(self) -> None:
        """Announce the end of the connection in each further response. Raises RuntimeApiError."""
        await info.set_flags(self._haproxy.api, self.config.closing_map, info.SET)

    async def clients(self) -> int:
        """Return the number of client connections. Raises RuntimeApiError."""
        return await info.clients(self._haproxy.api, "router")

    async def wait(self) -> int:
        """Wait until one HAProxy ends and return its exit status (negative: the signal)."""
        tasks = [asyncio.create_task(each.wait()) for each in self._both]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()

    @property
    def stopping(self) -> bool:
        """True if clients can no longer reach the router; its configuration is then frozen."""
        return self._stopping

    async def stop(self, graceful: float) -> bool:
        """Stop the HAProxy that clients reach. Requests may finish for `graceful` seconds.

        The one with large buffers continues, because the HAProxy that holds uses it too. Returns True if all
        requests finished.
        """
        self._stopping = True
        return await self._haproxy.stop(graceful)

    async def stop_late(self, graceful: float) -> bool:
        """Stop the HAProxy with large buffers, after the other two. Returns True if all requests finished."""
        return await self._late.stop(graceful)

    def leave(self) -> None:
        """Disconnect from both HAProxies.

        They continue to run if their processes are not children of this program.
        """
        for each in self._both:
            each.api.close()

    async def kill(self) -> None:
        """Kill both HAProxies immediately; current requests are cut."""
        for each in self._both:
            await each.kill()


def _unquoted(way: str) -> str:
    """Return `service/model`, with each part percent-decoded."""
    service, _, model = way.partition("/")
    return f"{unquote(service)}/{unquote(model)}"


def words(routes: Mapping[str, Route]) -> str:
    """Return the routes, the services' keys and their origins as one word of a command."""
    rings = {ring: number for number, ring in enumerate(sorted({route.keys for route in routes.values()}))}
    each = (
        f"{quote(model, safe='')}={route.port}:{rings[route.keys]}" for model, route in sorted(routes.items())
    )
    keys = (
        f"{number}={'+'.join(digest.lower() for digest in ring)}" for ring, number in rings.items() if ring
    )
    origins = sorted({origin for route in routes.values() for origin in route.origins})
    pages = ",".join(quote(origin, safe="") for origin in origins)
    return f"{','.join(each)}|{','.join(keys)}|{pages}"
