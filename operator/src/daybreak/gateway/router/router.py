"""The namespace's one address: each request is sent to the service of its model.

Two HAProxies do it. Clients reach the one with small buffers, which finds the model in the beginning of a
body. The other one has buffers for whole bodies, and one budget for what is in them; no client reaches it.
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
    """Where the requests for one model go."""

    port: int
    """The port of its service in the HAProxy that holds."""
    service: str
    """That service's name, for the log."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of the API keys that may ask for it, in hexadecimal: it is named to who has one. With
    none it is named to all."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may read its answers in a browser; `*`: all."""


@dataclass(frozen=True)
class Kept:
    """What is kept of large bodies and their answers."""

    bytes: int
    """Of all clients."""
    sources: Mapping[str, int]
    """Of each client, by its address."""


class Router:
    """Sends requests to services by their model.

    Args:
        config: What is set of it.
        process: The process that clients reach; one of our own, unless somebody else starts it.
        late_process: The one with large buffers; likewise.
    """

    def __init__(
        self, config: RouterConfig, process: Process | None = None, late_process: Process | None = None
    ) -> None:
        self.config = config
        self._haproxy = Haproxy(config.file, config.socket, process)
        self._late = Haproxy(config.late_file, config.late_admin, late_process)
        self._stopping = False
        # In the order in which they are started: the late one has no client until the other one runs.
        self._both = (self._late, self._haproxy)

    @property
    def pid(self) -> int:
        """The process that clients reach. Raises GatewayFailed when there is none."""
        return self._haproxy.pid

    @property
    def late_pid(self) -> int:
        """The process with large buffers. Raises GatewayFailed when there is none."""
        return self._late.pid

    async def adopt(self, seconds: float = 30) -> bool:
        """Take over the HAProxies that run, with what they know. Returns False when one of them is not there.

        One that clients reach and that was told to stop stays as it is. Raises HaproxyHangs when there is one
        that does not answer.
        """
        self._stopping = await self._haproxy.stopping()
        parts = [self._late] if self._stopping else self._both
        return all([await each.adopt(seconds) for each in parts])

    async def start(self, seconds: float = 30) -> None:
        """Start both HAProxies and wait until they listen; they know no model yet. Raises GatewayFailed."""
        self.config.folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        config = self.config
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors != resource.RLIM_INFINITY and descriptors < config.descriptors:
            other = config.descriptors - 2 * config.max_connections
            config = replace(config, max_connections=max(1, (descriptors - other) // 2))
            log.warning("few open files are allowed", allowed=descriptors, connections=config.max_connections)
        config.short_map.write_text("")
        config.closing_map.write_text("")
        config.responses.write_text(responses.lua())
        config.file.write_text(render(config))
        config.keys_map.write_text("")
        config.origins_map.write_text("")
        config.models_map.write_text("")
        config.late_file.write_text(render(config, LATE_TEMPLATE))
        # An agent before this one may have ended between the two.
        if not await self._late.adopt(seconds):
            await self._late.start(seconds)
        await self._haproxy.start(seconds)

    async def set_routes(self, routes: Mapping[str, Route], shares: Collection[Share] = ()) -> None:
        """Say where the requests for each model go, and those for names that several models share.

        Others are refused. Raises RuntimeApiError.
        """
        for each in self._both:
            said = pieces.commands("set", words(routes)) + pieces.commands("share", sharing.words(shares))
            for command in said:
                await each.api.expect(command, "ok")

    async def set_externals(self, externals: Collection[External]) -> None:
        """Say where models outside of the cluster are. Raises RuntimeApiError."""
        for each in self._both:
            await external.tell(each.api, externals)

    async def shares(self) -> Mapping[str, Mapping[str, int]]:
        """Requests that each route has sent to each of its models, as `service/model`, since HAProxy started.

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
        """What the backends of each route have got since its status says. Raises RuntimeApiError."""
        found: dict[str, list[RouteTally]] = {}
        for each in self._both:
            for route, row in (await each.api.json("router tallies")).items():
                told = RouteTally.parse(row)
                ways = {_unquoted(way): tally for way, tally in told.backends.items()}
                found.setdefault(unquote(route), []).append(RouteTally(unquote(told.since), ways))
        both = {route: added(tallies) for route, tallies in found.items()}
        return {route: tally for route, tally in both.items() if tally is not None}

    async def look(self) -> None:
        """Ask both for an answer, whatever it is, and wait for it. Raises RuntimeApiError."""
        await self._haproxy.api.command("router ping")
        await self.kept()

    async def kept(self) -> Kept:
        """What is kept of large bodies and their answers. Raises RuntimeApiError."""
        found = await self._late.api.json("late show")
        return Kept(bytes=found["bytes"], sources=found["sources"])

    async def connections(self) -> Connections:
        """Connections of clients. Raises RuntimeApiError."""
        return await info.connections(self._haproxy.api)

    async def set_short(self, short: bool, full: bool = False) -> None:
        """Say whether the gateway is short of room, as to the HAProxy that holds. Raises RuntimeApiError."""
        await info.set_flags(self._haproxy.api, self.config.short_map, *info.shortage(short, full))

    async def set_closing(self) -> None:
        """Announce the end of its connection in each response from here on. Raises RuntimeApiError."""
        await info.set_flags(self._haproxy.api, self.config.closing_map, info.SET)

    async def clients(self) -> int:
        """Return the number of client connections. Raises RuntimeApiError."""
        return await info.clients(self._haproxy.api, "router")

    async def wait(self) -> int:
        """Wait until one of them ends and return its exit status (negative: the signal)."""
        tasks = [asyncio.create_task(each.wait()) for each in self._both]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()

    @property
    def stopping(self) -> bool:
        """True if clients cannot reach it any more: what it knows does not change."""
        return self._stopping

    async def stop(self, graceful: float) -> bool:
        """Stop the HAProxy that clients reach. Requests may finish for so many seconds.

        The one with large buffers goes on, since the HAProxy that holds uses it too. Returns True if all
        requests could finish.
        """
        self._stopping = True
        return await self._haproxy.stop(graceful)

    async def stop_late(self, graceful: float) -> bool:
        """Stop the HAProxy with large buffers, after the other two. Returns True if all could finish."""
        return await self._late.stop(graceful)

    def leave(self) -> None:
        """Let go of both, which live on if their processes are not ours."""
        for each in self._both:
            each.api.close()

    async def kill(self) -> None:
        """End both at once: who is here is cut."""
        for each in self._both:
            await each.kill()


def _unquoted(way: str) -> str:
    """`service/model`, of which each part was told percent-encoded."""
    service, _, model = way.partition("/")
    return f"{unquote(service)}/{unquote(model)}"


def words(routes: Mapping[str, Route]) -> str:
    """The routes, the services' keys and their origins, as one word of a command."""
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
