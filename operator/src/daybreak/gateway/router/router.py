"""The namespace's one address: each request is sent to the service of its model.

Two HAProxies do it. Clients reach the one with small buffers, which finds the model in the beginning of a
body. The other one has buffers for whole bodies, and one budget for what is in them; no client reaches it.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

import jinja2
import structlog

from daybreak.api.common import names
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy import info
from daybreak.gateway.haproxy.info import Connections
from daybreak.gateway.haproxy.paths import BALANCER_PATH, HEALTH_PATH, PATHS, REPLICA_PATHS
from daybreak.gateway.haproxy.processes import Process
from daybreak.gateway.haproxy.program import Haproxy
from daybreak.gateway.haproxy.trust import ATTEMPTS, next_socket, token
from daybreak.gateway.lua import LUA
from daybreak.gateway.responses import responses
from daybreak.gateway.router import external, pieces
from daybreak.gateway.router import shares as sharing
from daybreak.gateway.router.external import External
from daybreak.gateway.router.shares import Share
from daybreak.protocol.tallies import RouteTally, Tallies, added

HERE = Path(__file__).parent
TEMPLATE = HERE / "router.cfg.j2"
LATE_TEMPLATE = HERE / "late.cfg.j2"
OWN_LUA = HERE / "lua"

_HEAD_ROOM = 64 * 2**10
"""Room in a large buffer beside the body: the request's head, and HAProxy's own."""
_BUFFER = 32 * 2**10
"""Bytes of a buffer of the HAProxy that clients reach."""
_SMALL = 28 * 2**10
"""Bytes of a body that are waited for, to find the model in them: with a usual head they fit the buffer."""
_MAX_HEADERS = 12 * 2**10
_MAX_URL = 2 * 2**10
"""Bytes. Together less than the head that the other HAProxy takes."""
_OWN_DESCRIPTORS = 100

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
class RouterConfig:
    """What can be set of the router."""

    folder: Path
    """A private folder: the admin socket and the configuration lie in it."""
    address: str = "*"
    """The address that it is reached at, in HAProxy's words; `*` is every IPv4 address, and `::` every one of
    both families."""
    port: int = 19999
    route_ports: range = range(0)
    """Ports for routes that have an address of their own; none: no route has one."""
    gateway_address: str = "127.0.0.1"
    """The address (IPv4) of the HAProxy that holds."""
    max_connections: int = 2000
    """Connections of clients at a time."""
    max_body_bytes: int = 10 * 2**20
    """The largest body that is searched for its model's name; one that begins with it may be larger."""
    budget_bytes: int = 256 * 2**20
    """Bytes that are kept of large bodies and their answers: of those that arrive, those of requests that are
    held, and those of answers that their clients have not taken."""
    client_share: float = 0.25
    """Part of it, and of the connections, that one client, by its address, may take."""
    service_share: float = 0.75
    """Part of the connections whose requests may be for one service."""
    short: float = 0.5
    """Part of the connections from which on a client has its share and no more, and none is kept for a next
    request."""
    body_kernel_bytes: int = 128 * 2**10
    """What the kernel keeps of a body that nobody reads yet; it takes up to twice of it."""
    few: float = 0.02
    """Part of the connections that one client may have while the pod is nearly full."""
    fewest: float = 0.002
    """The same while it is full."""
    kernel_bytes: int = 32 * 2**10
    """What the kernel keeps of an answer on its way; it takes up to twice of it."""
    head_timeout: int = 10
    """Seconds within which a request's head must have arrived, and then the beginning of its body."""
    body_timeout: int = 120
    """Seconds within which a large body must have arrived, where the model's name stands late in it."""
    stall_timeout: int = 60
    """Seconds for which a client may leave off sending its body, or taking its answer."""
    stream_timeout: int = names.GATEWAY_STREAM_SECONDS
    """Seconds for which a model may be silent."""
    hard_stop: int = 7200
    """Seconds after which a stopping router ends whatever is left."""

    @property
    def socket(self) -> Path:
        """The admin socket."""
        return self.folder / "router.sock"

    @property
    def keys_map(self) -> Path:
        """HAProxy's map of the digests of all keys of the namespace, kept by router.lua."""
        return self.folder / "router-keys.map"

    @property
    def origins_map(self) -> Path:
        """HAProxy's map of the origins of all services, kept by router.lua."""
        return self.folder / "router-origins.map"

    @property
    def models_map(self) -> Path:
        """HAProxy's map of the ports of models by their names, kept by router.lua; routes are not in it."""
        return self.folder / "router-models.map"

    @property
    def late_socket(self) -> Path:
        """Where the HAProxy that holds sends requests whose model stands late in their bodies."""
        return self.folder / "late.sock"

    @property
    def late_admin(self) -> Path:
        """The admin socket of the HAProxy with large buffers."""
        return self.folder / "late-admin.sock"

    @property
    def share_bytes(self) -> int:
        """Bytes of the budget for one client: at least a whole body."""
        return min(self.budget_bytes, max(self.max_body_bytes, int(self.budget_bytes * self.client_share)))

    @property
    def service_requests(self) -> int:
        """Requests that the HAProxy that holds takes by it for one service: the rest is for the others."""
        return max(1, int(self.service_share * self.max_connections))

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "router.cfg"

    @property
    def responses(self) -> Path:
        """The table of error responses, as Lua; the same file as that of the HAProxy that holds."""
        return self.folder / responses.LUA_FILE

    @property
    def short_map(self) -> Path:
        """The map that says whether the gateway is short of room."""
        return self.folder / "short-llm.map"

    @property
    def closing_map(self) -> Path:
        """The map that says whether responses announce the end of their connection."""
        return self.folder / "closing-llm.map"

    @property
    def late_file(self) -> Path:
        """The configuration file of the HAProxy with large buffers."""
        return self.folder / "late.cfg"

    @property
    def descriptors(self) -> int:
        """File descriptors that it needs."""
        return 2 * self.max_connections + len(self.route_ports) + _OWN_DESCRIPTORS


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


def render(config: RouterConfig, file: Path = TEMPLATE) -> str:
    """The text of a configuration file."""
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string(file.read_text())
    return template.render(
        **vars(config),
        client_connections=max(1, int(config.client_share * config.max_connections)),
        few_connections=max(1, int(config.few * config.max_connections)),
        fewest_connections=max(1, int(config.fewest * config.max_connections)),
        short_map=config.short_map,
        closing_map=config.closing_map,
        short_connections=max(1, int(config.short * config.max_connections)),
        buffer_bytes=_BUFFER,
        respond=responses.respond,
        default_responses=responses.defaults(),
        keys_map=config.keys_map,
        origins_map=config.origins_map,
        models_map=config.models_map,
        forms=fields.FORMS,
        token=token(config.folder),
        attempts=ATTEMPTS,
        late_admin=config.late_admin,
        late_buffer_bytes=config.max_body_bytes + _HEAD_ROOM,
        late_socket=config.late_socket,
        lua=OWN_LUA,
        shared_lua=LUA,
        lua_mib=32 + 8 * config.max_body_bytes // 2**20,
        max_headers=_MAX_HEADERS,
        max_url=_MAX_URL,
        next_socket=next_socket(config.folder),
        paths=PATHS,
        health_path=HEALTH_PATH,
        balancer_path=BALANCER_PATH,
        renames=file == TEMPLATE,
        replica_paths=REPLICA_PATHS,
        share_bytes=config.share_bytes,
        small=_SMALL,
        socket=config.socket,
    )
