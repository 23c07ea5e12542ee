"""Configuration of the router's two HAProxies, made from router.cfg.j2 and late.cfg.j2."""

from dataclasses import dataclass
from pathlib import Path

from daybreak.api.common import names
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.paths import BALANCER_PATH, HEALTH_PATH, PATHS, REPLICA_PATHS
from daybreak.gateway.haproxy.templates import load
from daybreak.gateway.haproxy.trust import ATTEMPTS, next_socket, token
from daybreak.gateway.lua import LUA
from daybreak.gateway.responses import responses

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


def render(config: RouterConfig, file: Path = TEMPLATE) -> str:
    """The text of a configuration file."""
    return load(file).render(
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
