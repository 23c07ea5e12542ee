"""Configuration of the router's two HAProxies, rendered from router.cfg.j2 and late.cfg.j2."""

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
"""Space in a large buffer in addition to the body: the head of the request, and HAProxy's own data."""
_BUFFER = 32 * 2**10
"""Buffer size in bytes of the HAProxy that clients reach."""
_SMALL = 28 * 2**10
"""Bytes of a body that HAProxy waits for, to find the model in them; with a usual head they fit the
buffer."""
_MAX_HEADERS = 12 * 2**10
_MAX_URL = 2 * 2**10
"""Limits in bytes. Together they are below the maximum head of the other HAProxy."""
_OWN_DESCRIPTORS = 100


@dataclass(frozen=True)
class RouterConfig:
    """Configuration of the router."""

    folder: Path
    """Private folder for the admin socket and the configuration."""
    address: str = "*"
    """Address at which the router is reached, in HAProxy's notation; `*` is every IPv4 address, and `::`
    every address of both families."""
    port: int = 19999
    route_ports: range = range(0)
    """Ports for routes with a dedicated address; none: no route has one."""
    gateway_address: str = "127.0.0.1"
    """IPv4 address of the HAProxy that holds."""
    max_connections: int = 2000
    """Maximum number of client connections."""
    max_body_bytes: int = 10 * 2**20
    """Maximum size of a body that is searched for the model's name; a body that begins with the name may be
    larger."""
    budget_bytes: int = 256 * 2**20
    """Memory budget in bytes for large bodies and their responses: arriving bodies, bodies of held requests,
    and responses that clients have not read."""
    client_share: float = 0.25
    """Part of the budget, and of the connections, that one client may use, by its address."""
    service_share: float = 0.75
    """Part of the connections whose requests may be for one service."""
    short: float = 0.5
    """Part of the connections from which the router is short: each client is then limited to its share, and
    no connection is kept for a next request."""
    body_kernel_bytes: int = 128 * 2**10
    """Kernel memory for a body that is not being read yet; the kernel uses up to twice this value."""
    few: float = 0.02
    """Part of the connections that one client may have while the pod is nearly full."""
    fewest: float = 0.002
    """Part of the connections that one client may have while the pod is full."""
    kernel_bytes: int = 32 * 2**10
    """Kernel memory for a response in transit; the kernel uses up to twice this value."""
    head_timeout: int = 10
    """Maximum time in seconds until the head of a request has arrived, and then the beginning of its body."""
    body_timeout: int = 120
    """Maximum time in seconds until a large body has arrived, if the model's name is late in it."""
    stall_timeout: int = 60
    """Maximum time in seconds for which a client may stop sending its body or reading its response."""
    stream_timeout: int = names.GATEWAY_STREAM_SECONDS
    """Maximum time in seconds for which a model may be silent."""
    hard_stop: int = 7200
    """Seconds after which a stopping router ends all remaining requests."""

    @property
    def socket(self) -> Path:
        """Path of the admin socket."""
        return self.folder / "router.sock"

    @property
    def keys_map(self) -> Path:
        """HAProxy's map of the digests of all keys of the namespace, maintained by router.lua."""
        return self.folder / "router-keys.map"

    @property
    def origins_map(self) -> Path:
        """HAProxy's map of the origins of all services, maintained by router.lua."""
        return self.folder / "router-origins.map"

    @property
    def models_map(self) -> Path:
        """HAProxy's map from model names to ports, maintained by router.lua, without routes."""
        return self.folder / "router-models.map"

    @property
    def late_socket(self) -> Path:
        """Socket at which the HAProxy that holds sends requests whose model is late in their bodies."""
        return self.folder / "late.sock"

    @property
    def late_admin(self) -> Path:
        """Path of the admin socket of the HAProxy with large buffers."""
        return self.folder / "late-admin.sock"

    @property
    def share_bytes(self) -> int:
        """Bytes of the budget for one client: at least a whole body."""
        return min(self.budget_bytes, max(self.max_body_bytes, int(self.budget_bytes * self.client_share)))

    @property
    def service_requests(self) -> int:
        """Maximum number of requests of one service in the router; the rest is for other services."""
        return max(1, int(self.service_share * self.max_connections))

    @property
    def file(self) -> Path:
        """Path of the configuration file."""
        return self.folder / "router.cfg"

    @property
    def responses(self) -> Path:
        """Path of the table of error responses, as Lua; shared with the HAProxy that holds."""
        return self.folder / responses.LUA_FILE

    @property
    def short_map(self) -> Path:
        """Path of the map with the gateway's shortage of capacity."""
        return self.folder / "short-llm.map"

    @property
    def closing_map(self) -> Path:
        """Path of the map with the flag for responses that announce the end of their connection."""
        return self.folder / "closing-llm.map"

    @property
    def late_file(self) -> Path:
        """Path of the configuration file of the HAProxy with large buffers."""
        return self.folder / "late.cfg"

    @property
    def descriptors(self) -> int:
        """Number of file descriptors that the router needs."""
        return 2 * self.max_connections + len(self.route_ports) + _OWN_DESCRIPTORS


def render(config: RouterConfig, file: Path = TEMPLATE) -> str:
    """Return the text of a configuration file."""
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
