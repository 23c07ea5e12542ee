"""HAProxy configuration, rendered from haproxy.cfg.j2."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from daybreak.api.common import names
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.paths import BALANCER_PATH, HEALTH_PATH, PATHS, REPLICA_PATHS, SCORE_PATHS
from daybreak.gateway.haproxy.templates import load
from daybreak.gateway.haproxy.trust import ATTEMPTS, next_socket, token
from daybreak.gateway.hold.table import ADDED_BUCKETS, HOLD_BUCKETS
from daybreak.gateway.lua import LUA
from daybreak.gateway.responses import responses

HERE = Path(__file__).parent
TEMPLATE = HERE / "haproxy.cfg.j2"
OWN_LUA = HERE / "lua"

_OWN_DESCRIPTORS = 100
_COME_BACK = ("turn", "deadline", "source", "for_replicas", "unlooked", "probe")
_BACK = "|".join(
    (
        "%b",
        *(f"%[var(txn.daybreak_{name})]" for name in _COME_BACK),
    )
)
"""Values that a request keeps if no server could be reached and it returns to the hold. They are its backend,
the number of its returns, the end of its hold, and its source address. Three flags follow: only replicas can
answer it, its body is unchecked, and it does not count as activity."""
ROUTER_ADDRESS = "127.0.0.1"
"""Source address of the router's connections. The gateway trusts the router's information about its
clients."""


@dataclass(frozen=True)
class Maps:
    """Map files of HAProxy: empty at first, maintained by slots.lua."""

    folder: Path

    @property
    def awake(self) -> Path:
        """Backends that small requests reach without Lua: `replicas` if one is up, otherwise `proxies`."""
        return self.folder / "awake.map"

    @property
    def models(self) -> Path:
        """Backend of each model, by the port of the service and the name of the model: `20000/llama`."""
        return self.folder / "models.map"

    @property
    def fronts(self) -> Path:
        """Backend of requests that name no model, by port.

        Services with several models or with prefix routing have one. HAProxy waits for bodies there.
        """
        return self.folder / "fronts.map"

    @property
    def adapters(self) -> Path:
        """Models that are LoRA adapters, by port and name, as in `models`.

        Serve's proxy does not know them.
        """
        return self.folder / "adapters.map"

    @property
    def choices(self) -> Path:
        """Replica selection, by backend, if it is not the least busy replica: a Policy."""
        return self.folder / "choices.map"

    @property
    def queues(self) -> Path:
        """Maximum number of requests that wait for the replicas of a backend, by backend."""
        return self.folder / "queues.map"

    @property
    def checks(self) -> Path:
        """Paths of health checks, by backend, if they differ from those of Ray pods."""
        return self.folder / "checks.map"

    @property
    def guards(self) -> Path:
        """Maximum body size in bytes by backend, for backends whose replicas check bodies themselves.

        A service with one model also has an entry for its port.
        """
        return self.folder / "guards.map"

    @property
    def paths(self) -> Path:
        """Ports at which more than OpenAI's paths pass: `any`, `v2` for paths below `/v2`, or `routes`."""
        return self.folder / "paths.map"

    @property
    def routes(self) -> Path:
        """Allowed path prefixes of ports with `routes`, by port: `20000/words/`."""
        return self.folder / "routes.map"

    @property
    def probes(self) -> Path:
        """Requests that do not count as activity, by port.

        Examples: `20000/agent/<beginning of a user agent>`, `20000/key/<name>`, `20000/path/v1/embeddings`.
        `20000:` marks a port with such requests.
        """
        return self.folder / "probes.map"

    @property
    def access(self) -> Path:
        """Key requirement of a service, by its port: `open`, `keyed`, or `unread` while a key cannot be read.

        A missing port has not been configured.
        """
        return self.folder / "access.map"

    @property
    def keys(self) -> Path:
        """Properties of each API key, by the port of the service and the digest of the key."""
        return self.folder / "keys.map"

    @property
    def origins(self) -> Path:
        """Origins whose pages may read a service's responses, by port: `20000/https://chat.example`."""
        return self.folder / "origins.map"

    @property
    def short(self) -> Path:
        """Shortage of capacity in the gateway: `1` if it is short, `2` if it is full."""
        return self.folder / "short.map"

    @property
    def closing(self) -> Path:
        """Flag for responses that announce the end of their connection; set while there is an entry."""
        return self.folder / "closing.map"

    def empty(self) -> None:
        """Write every map file without entries."""
        for file in (
            self.awake,
            self.models,
            self.fronts,
            self.adapters,
            self.choices,
            self.queues,
            self.checks,
            self.guards,
            self.paths,
            self.routes,
            self.access,
            self.origins,
            self.keys,
            self.short,
            self.closing,
            self.probes,
        ):
            file.write_text("")


@dataclass(frozen=True)
class GatewayConfig:
    """Configuration of one gateway."""

    folder: Path
    """Private folder for the admin socket and the configuration."""
    address: str = "*"
    """Address at which services are reached, in HAProxy's notation; `*` is every IPv4 address, and `::` every
    address of both families."""
    first_port: int = 20000
    slots: int = 1024
    """Maximum number of services; each has its own port."""
    max_connections: int = 10000
    """Maximum number of client connections, held ones included. The hard limit of open files (RLIMIT_NOFILE)
    should be at least `descriptors`, 22,148 with these defaults; a lower limit allows fewer connections."""
    model_backends: int = 256
    """Backends for the gates of services with several models; models beyond them share the front's
    backend."""
    short: float = 0.5
    """Part of the connections, and of `hold_bytes`, from which the gateway is short. Each client is then
    limited to its share, and no connection is kept for a next request."""
    client_share: float = 0.25
    """Part of the connections, and of `hold_bytes`, for one client, by address."""
    service_share: float = 0.75
    """Part of the connections, and of `hold_bytes`, for one service; the rest is for the other services."""
    routed_requests: int = 1500
    """Maximum number of requests of one service that come through the router at the same time. The router has
    fewer connections."""
    few: float = 0.02
    """Part of the connections that one client may have while the pod is nearly full."""
    fewest: float = 0.002
    """Part of the connections that one client may have while the pod is full."""
    hold_bytes: int = 384 * 2**20
    """Maximum memory of all held requests: buffers, kernel memory, and HAProxy's memory for each request."""
    body_kernel_bytes: int = 128 * 2**10
    """Kernel memory for a body that is not being read yet; the kernel uses up to twice this value. If a body
    does not fit, the client's close follows the rest of the body, and the gateway does not notice it during
    the hold."""
    kernel_bytes: int = 32 * 2**10
    """Kernel memory for a response in transit; the kernel uses up to twice this value."""
    stall_timeout: int = 60
    """Maximum time in seconds for which a client may stop sending its body or reading its response."""
    body_grace: int = 30
    """Time in seconds of a client that a body may take at any speed."""
    body_pace: int = 16 * 2**10
    """Minimum speed of a body after `body_grace`, in bytes per second, without the time in which the gateway
    does not read it."""
    stream_timeout: int = names.GATEWAY_STREAM_SECONDS
    """Maximum time in seconds for which a model may be silent."""
    connect_timeout_ms: int = 1500
    """Maximum time in milliseconds in which a server must accept a connection. After it, HAProxy tries the
    next server, or the request is held."""
    check_timeout: int = 6
    """Maximum time in seconds in which a server must answer a health check."""
    errors_in_a_row: int = 10
    """Number of consecutive errors (500, 502) of a server after which it is down until a health check
    succeeds."""
    queue_timeout: int = 600
    """Maximum time in seconds for which a request waits for a server that has reached its limit of
    requests."""
    head_timeout: int = 10
    """Maximum time in seconds until the head of a request has arrived."""
    keep_alive_timeout: int = 75
    """Maximum time in seconds for which a client connection may be without a request."""
    release_rate: float = 250
    """Held requests released per second and gate when it opens. The value is about the rate that one Serve
    proxy, a single Python process, accepts, so that the first server is not overloaded."""
    release_burst: int = 20
    """Maximum number of held requests that are released at once."""
    max_choices: int = fields.MAX_CHOICES
    """Maximum value of `n` in a request."""
    max_items: int = fields.MAX_ITEMS
    """Maximum length of a list of prompts, inputs or documents."""
    buffer_bytes: int = 32 * 1024
    """Size of HAProxy's buffer: each held request has one, and the head of a request must fit it."""
    small: int = 28 * 1024
    """Maximum size in bytes of a body that is checked as a whole; with a head it fits the buffer."""
    late_socket: Path | None = None
    """Socket at which the router receives requests whose model name is behind the end of the buffer, or None
    if there is none."""
    late_bytes: int = 10 * 2**20
    """Maximum body size in bytes at `late_socket`."""
    hard_stop: int = 7200
    """Seconds after which a stopping gateway ends all remaining requests."""

    @property
    def socket(self) -> Path:
        """Path of the admin socket."""
        return self.folder / "admin.sock"

    @property
    def again_socket(self) -> Path:
        """Socket at which requests return to the hold if no server could be reached for them."""
        return self.folder / "again.sock"

    @property
    def next_socket(self) -> Path:
        """Socket at which the router takes back requests of routes, for the next backend."""
        return next_socket(self.folder)

    @property
    def file(self) -> Path:
        """Path of the configuration file."""
        return self.folder / "haproxy.cfg"

    @property
    def fields(self) -> Path:
        """Path of the Lua file with the request fields that guard.lua allows."""
        return self.folder / "fields.lua"

    @property
    def responses(self) -> Path:
        """Path of the table of error responses, as Lua."""
        return self.folder / responses.LUA_FILE

    @property
    def maps(self) -> Maps:
        """Map files that HAProxy reads."""
        return Maps(self.folder)

    @property
    def descriptors(self) -> int:
        """Number of file descriptors that HAProxy needs.

        Each connection needs two (to the client and to the server), each service two (its port and a health
        check), and HAProxy itself some.
        """
        return 2 * self.max_connections + 2 * self.slots + _OWN_DESCRIPTORS

    @property
    def kept_bytes(self) -> int:
        """Maximum memory in bytes for the body of one held request.

        It covers the buffers of the connection and of the request, and kernel memory.
        """
        return 2 * self.buffer_bytes + 2 * self.body_kernel_bytes

    def connections(self, part: float) -> int:
        """Return the number of connections that is this part of all connections."""
        return max(1, int(part * self.max_connections))

    def fitting(self, descriptors: int) -> Self:
        """Return this configuration with as many connections as the file descriptors allow.

        Raises ValueError if they allow no connection.
        """
        if descriptors >= self.descriptors:
            return self
        connections = (descriptors - 2 * self.slots - _OWN_DESCRIPTORS) // 2
        if connections < 1:
            raise ValueError(f"{descriptors} file descriptors do not suffice for {self.slots} services")
        return replace(self, max_connections=connections)

    @property
    def last_port(self) -> int:
        """Last port of the services."""
        return self.first_port + self.slots - 1


def render(config: GatewayConfig) -> str:
    """Return the text of haproxy.cfg."""
    return load(TEMPLATE).render(
        **vars(config),
        added_buckets=ADDED_BUCKETS,
        client_connections=config.connections(config.client_share),
        kept_bytes=config.kept_bytes,
        router_address=ROUTER_ADDRESS,
        few_connections=config.connections(config.few),
        fewest_connections=config.connections(config.fewest),
        short_connections=config.connections(config.short),
        service_connections=config.connections(config.service_share),
        again_socket=config.again_socket,
        next_socket=config.next_socket,
        back=_BACK,
        maps=config.maps,
        paths=PATHS,
        health_path=HEALTH_PATH,
        balancer_path=BALANCER_PATH,
        replica_paths=REPLICA_PATHS,
        score_paths=SCORE_PATHS,
        respond=responses.respond,
        default_responses=responses.defaults(),
        hold_buckets=HOLD_BUCKETS,
        last_port=config.last_port,
        lua=OWN_LUA,
        shared_lua=LUA,
        max_salt=fields.MAX_SALT,
        headers=fields.HEADERS,
        guard_path=fields.guard_path(),
        token=token(config.folder),
        attempts=ATTEMPTS,
        unusual=fields.quick(),
        socket=config.socket,
    )
