"""The namespace's one address: a second HAProxy that sends each request to the service of its model."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import jinja2
import structlog

from daybreak.gateway.haproxy.errors import ERRORS, error_body
from daybreak.gateway.haproxy.paths import PATHS, REPLICA_PATHS
from daybreak.gateway.haproxy.processes import Process
from daybreak.gateway.haproxy.program import Haproxy
from daybreak.gateway.haproxy.trust import ATTEMPTS, token
from daybreak.gateway.lua import LUA

HERE = Path(__file__).parent
TEMPLATE = HERE / "router.cfg.j2"

_HEAD_ROOM = 64 * 2**10
"""Room in a buffer beside the body: the request's head, and HAProxy's own."""
_MAX_HEADERS = 12 * 2**10
_MAX_URL = 2 * 2**10
"""Bytes. Together less than the head that the other HAProxy takes."""
_OWN_DESCRIPTORS = 100

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True)
class Route:
    """Where the requests for one model go."""

    port: int
    """The port of its service in the HAProxy that holds."""
    service: str
    """That service's name, for the log."""
    keys: tuple[str, ...] = ()
    """SHA-256 digests of the API keys that may ask for it, in hexadecimal: it is named to who has one. With
    none it is named to all."""


@dataclass(frozen=True)
class RouterConfig:
    """What can be set of the router."""

    folder: Path
    """A private folder: the admin socket and the configuration lie in it."""
    address: str = "*"
    """The address that it is reached at, in HAProxy's words; `*` is every IPv4 address, and `::` every one of
    both families."""
    port: int = 19999
    gateway_address: str = "127.0.0.1"
    """The address (IPv4) of the HAProxy that holds."""
    max_connections: int = 2000
    """Connections of clients at a time."""
    max_body_bytes: int = 10 * 2**20
    """The largest body: it is kept until it is known where it goes."""
    budget_bytes: int = 256 * 2**20
    """Bodies that may be here together, in bytes: those that arrive and those of requests that are held."""
    head_timeout: int = 10
    """Seconds within which a request's head must have arrived."""
    body_timeout: int = 120
    """Seconds within which its body must have arrived."""
    stream_timeout: int = 3600
    """Seconds for which a request or an answer may be silent."""
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
    def late_socket(self) -> Path:
        """Where the HAProxy that holds sends requests whose model stands late in their bodies."""
        return self.folder / "late.sock"

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "router.cfg"

    @property
    def descriptors(self) -> int:
        """File descriptors that it needs."""
        return 2 * self.max_connections + _OWN_DESCRIPTORS


class Router:
    """Sends requests to services by their model.

    Args:
        config: What is set of it.
        process: HAProxy's process; one of our own, unless somebody else starts it.
    """

    def __init__(self, config: RouterConfig, process: Process | None = None) -> None:
        self.config = config
        self._haproxy = Haproxy(config.file, config.socket, process)

    @property
    def pid(self) -> int:
        """HAProxy's process. Raises GatewayFailed when there is none."""
        return self._haproxy.pid

    async def runs(self) -> bool:
        """Whether HAProxy is there. Raises GatewayFailed when nobody can say."""
        return await self._haproxy.runs()

    async def adopt(self, seconds: float = 30) -> bool:
        """Take over the HAProxy that runs, with what it knows. Returns False when there is none.

        Raises HaproxyHangs when there is one that does not answer.
        """
        return await self._haproxy.adopt(seconds)

    async def start(self, seconds: float = 30) -> None:
        """Start HAProxy and wait until it listens; it knows no model yet. Raises GatewayFailed."""
        self.config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self.config
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors != resource.RLIM_INFINITY and descriptors < config.descriptors:
            config = replace(config, max_connections=max(1, (descriptors - _OWN_DESCRIPTORS) // 2))
            log.warning("few open files are allowed", allowed=descriptors, connections=config.max_connections)
        config.file.write_text(render(config))
        config.keys_map.write_text("")
        await self._haproxy.start(seconds)

    async def set_routes(self, routes: Mapping[str, Route]) -> None:
        """Say where the requests for each model go; others are refused. Raises RuntimeApiError."""
        await self._haproxy.api.expect(f"router set {words(routes)}", "ok")

    async def look(self) -> None:
        """Ask for an answer, whatever it is, and wait for it. Raises RuntimeApiError."""
        await self._haproxy.api.json("router show")

    async def wait(self) -> int:
        """Wait for HAProxy's end and return its exit status (negative: the signal)."""
        return await self._haproxy.wait()

    async def stop(self, graceful: float) -> bool:
        """No new connections; who is here may finish, for so many seconds. Returns whether all could."""
        return await self._haproxy.stop(graceful)

    def leave(self) -> None:
        """Let go of HAProxy, which lives on if its process is not ours."""
        self._haproxy.api.close()

    async def kill(self) -> None:
        """End it at once: who is here is cut."""
        await self._haproxy.kill()


def words(routes: Mapping[str, Route]) -> str:
    """The routes and the services' keys, as two words of a command."""
    rings = {ring: number for number, ring in enumerate(sorted({route.keys for route in routes.values()}))}
    each = (
        f"{quote(model, safe='')}={route.port}:{rings[route.keys]}" for model, route in sorted(routes.items())
    )
    keys = (
        f"{number}={'+'.join(digest.lower() for digest in ring)}" for ring, number in rings.items() if ring
    )
    return f"{','.join(each) or '-'} {','.join(keys) or '-'}"


def render(config: RouterConfig) -> str:
    """The text of the router's haproxy.cfg."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)  # noqa: S701
    template = environment.from_string(TEMPLATE.read_text())
    return template.render(
        address=config.address,
        body_timeout=config.body_timeout,
        budget_bytes=config.budget_bytes,
        buffer_bytes=config.max_body_bytes + _HEAD_ROOM,
        error_body=error_body,
        errors=ERRORS,
        gateway_address=config.gateway_address,
        hard_stop=config.hard_stop,
        head_timeout=config.head_timeout,
        keys_map=config.keys_map,
        token=token(config.folder),
        attempts=ATTEMPTS,
        late_socket=config.late_socket,
        lua=HERE,
        shared_lua=LUA,
        lua_mib=32 + 8 * config.max_body_bytes // 2**20,
        max_body_bytes=config.max_body_bytes,
        max_connections=config.max_connections,
        max_headers=_MAX_HEADERS,
        max_url=_MAX_URL,
        paths=PATHS,
        port=config.port,
        replica_paths=REPLICA_PATHS,
        socket=config.socket,
        stream_timeout=config.stream_timeout,
    )
