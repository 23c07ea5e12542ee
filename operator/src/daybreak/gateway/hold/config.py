"""HAProxy's configuration, made from haproxy.cfg.j2."""

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
"""What comes back with a request that no server could be reached for: its backend, how often it has, when its
hold ends, whose it is, whether only replicas can answer it, whether nobody has looked at its body, and
whether it does not count as activity."""
ROUTER_ADDRESS = "127.0.0.1"
"""Where the router's connections come from: what it says of its clients is believed."""


@dataclass(frozen=True)
class Maps:
    """HAProxy's maps: empty at first, kept by slots.lua."""

    folder: Path

    @property
    def awake(self) -> Path:
        """Backends that small requests reach without Lua: `replicas` where one is up, else `proxies`."""
        return self.folder / "awake.map"

    @property
    def models(self) -> Path:
        """The backend of each model, by the service's port and the model's name: `20000/llama`."""
        return self.folder / "models.map"

    @property
    def fronts(self) -> Path:
        """The backend of requests that name no model, by port: of services with several models, and with
        routing by prefix. Bodies are waited for there."""
        return self.folder / "fronts.map"

    @property
    def adapters(self) -> Path:
        """The models that are LoRA adapters, by the same keys: Serve's proxy does not know them."""
        return self.folder / "adapters.map"

    @property
    def choices(self) -> Path:
        """How a replica is chosen, by backend, where it is not the least busy one: a Policy."""
        return self.folder / "choices.map"

    @property
    def queues(self) -> Path:
        """Requests that may wait for the replicas of a backend, by backend."""
        return self.folder / "queues.map"

    @property
    def checks(self) -> Path:
        """Paths of health checks, by backend, where they are not those of Ray pods."""
        return self.folder / "checks.map"

    @property
    def guards(self) -> Path:
        """Where replicas look at bodies themselves, the bytes of the largest one that is taken, by backend;
        and by port where a service has one model."""
        return self.folder / "guards.map"

    @property
    def paths(self) -> Path:
        """Where more than OpenAI's paths pass, by port: `any`, `v2` for those below `/v2`, or `routes`."""
        return self.folder / "paths.map"

    @property
    def routes(self) -> Path:
        """Prefixes of paths that pass there, by port: `20000/words/`."""
        return self.folder / "routes.map"

    @property
    def probes(self) -> Path:
        """Requests that do not count as activity, by port: `20000/agent/<beginning of a user agent>`,
        `20000/key/<name>`, `20000/path/v1/embeddings`; and `20000:` if there are any."""
        return self.folder / "probes.map"

    @property
    def access(self) -> Path:
        """Whether a service needs a key, by its port: `open`, `keyed`, or `unread` while one cannot be read.
        A port that is not in it has not been told of."""
        return self.folder / "access.map"

    @property
    def keys(self) -> Path:
        """What is known of each API key, by the service's port and the key's digest."""
        return self.folder / "keys.map"

    @property
    def origins(self) -> Path:
        """The origins whose pages may read a service's answers, by its port: `20000/https://chat.example`."""
        return self.folder / "origins.map"

    @property
    def short(self) -> Path:
        """Whether the gateway is short of room: with the entry `1` it is, and with `2` it is full."""
        return self.folder / "short.map"

    @property
    def closing(self) -> Path:
        """Whether responses announce the end of their connection: with an entry they do."""
        return self.folder / "closing.map"

    def empty(self) -> None:
        """Write all of them, without an entry."""
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
    """What can be set of one gateway."""

    folder: Path
    """A private folder: the admin socket and the configuration lie in it."""
    address: str = "*"
    """The address that services are reached at, in HAProxy's words; `*` is every IPv4 address, and `::`
    every one of both families."""
    first_port: int = 20000
    slots: int = 1024
    """How many services there can be: each has a port of its own."""
    max_connections: int = 10000
    """Connections of clients at a time, held ones included. The hard limit of open files (RLIMIT_NOFILE)
    should be at least `descriptors`, 22,148 with these defaults; a lower one allows fewer connections."""
    model_backends: int = 256
    """Backends for the gates of services with several models; models beyond them share the front's."""
    short: float = 0.5
    """Part of the connections, and of `hold_bytes`, from which on a client has its share and no more, and no
    connection is kept for a next request."""
    client_share: float = 0.25
    """Part of them for one client, by its address."""
    service_share: float = 0.75
    """Part of them for one service: the rest is for the others."""
    routed_requests: int = 1500
    """Requests of one service that may be here by the router at a time: it has fewer connections."""
    few: float = 0.02
    """Part of the connections that one client may have while the pod is nearly full."""
    fewest: float = 0.002
    """The same while it is full."""
    hold_bytes: int = 384 * 2**20
    """What held requests may take together: buffers, what the kernel keeps, and HAProxy's own of each."""
    body_kernel_bytes: int = 128 * 2**10
    """What the kernel keeps of a body that nobody reads yet; it takes up to twice of it. Where a body does
    not fit, the client's end is behind the rest, and nobody hears of it while the request is held."""
    kernel_bytes: int = 32 * 2**10
    """What the kernel keeps of an answer on its way; it takes up to twice of it."""
    stall_timeout: int = 60
    """Seconds for which a client may leave off sending its body, or taking its answer."""
    body_grace: int = 30
    """Seconds of a client that a body may take, whatever it comes like."""
    body_pace: int = 16 * 2**10
    """Bytes per second that it must have come at from then on, the time left out in which nobody reads it."""
    stream_timeout: int = names.GATEWAY_STREAM_SECONDS
    """Seconds for which a model may be silent."""
    connect_timeout_ms: int = 1500
    """Milliseconds within which a server must take a connection; after them the next one is asked, or the
    request is held."""
    check_timeout: int = 6
    """Seconds within which a server must answer a health check."""
    errors_in_a_row: int = 10
    """Errors (500, 502) of a server, and nothing else, after which it is down until a check finds it well."""
    queue_timeout: int = 600
    """Seconds for which a request may wait for a server that has as many as it takes."""
    head_timeout: int = 10
    """Seconds within which a request's head must have arrived."""
    keep_alive_timeout: int = 75
    """Seconds for which a client's connection may be without a request."""
    release_rate: float = 250
    """Held requests released per second and gate when it opens: about what one Serve proxy, one
    Python process, takes in, so that the first server to come up is not buried."""
    release_burst: int = 20
    """Held requests that may be released at once."""
    max_choices: int = fields.MAX_CHOICES
    """The largest `n` that a request may ask for."""
    max_items: int = fields.MAX_ITEMS
    """The longest list of prompts, inputs or documents."""
    buffer_bytes: int = 32 * 1024
    """HAProxy's buffer: each held request has one, and a request's head must fit it."""
    small: int = 28 * 1024
    """Bytes of a body that is looked at as a whole: with a head it fits the buffer."""
    late_socket: Path | None = None
    """Where the router takes requests whose model stands behind the buffer's end; None: there is none."""
    late_bytes: int = 10 * 2**20
    """The largest body that it takes."""
    hard_stop: int = 7200
    """Seconds after which a stopping gateway ends whatever is left."""

    @property
    def socket(self) -> Path:
        """The admin socket."""
        return self.folder / "admin.sock"

    @property
    def again_socket(self) -> Path:
        """Where requests come back to the hold that no server could be reached for."""
        return self.folder / "again.sock"

    @property
    def next_socket(self) -> Path:
        """Where the router takes requests of routes back, for the next backend."""
        return next_socket(self.folder)

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "haproxy.cfg"

    @property
    def fields(self) -> Path:
        """What guard.lua lets pass, as Lua."""
        return self.folder / "fields.lua"

    @property
    def responses(self) -> Path:
        """The table of error responses, as Lua."""
        return self.folder / responses.LUA_FILE

    @property
    def maps(self) -> Maps:
        """The maps that HAProxy looks things up in."""
        return Maps(self.folder)

    @property
    def descriptors(self) -> int:
        """File descriptors that HAProxy needs: two for each connection (the other one is that to the server),
        two for each service (its port and a health check), and some for itself."""
        return 2 * self.max_connections + 2 * self.slots + _OWN_DESCRIPTORS

    @property
    def kept_bytes(self) -> int:
        """The most that is kept of one held request's body: buffers of the connection and of the request, and
        the kernel's."""
        return 2 * self.buffer_bytes + 2 * self.body_kernel_bytes

    def connections(self, part: float) -> int:
        """So much of all connections."""
        return max(1, int(part * self.max_connections))

    def fitting(self, descriptors: int) -> Self:
        """The same with as many connections as so many file descriptors allow.

        Raises ValueError if that is none.
        """
        if descriptors >= self.descriptors:
            return self
        connections = (descriptors - 2 * self.slots - _OWN_DESCRIPTORS) // 2
        if connections < 1:
            raise ValueError(f"{descriptors} file descriptors do not suffice for {self.slots} services")
        return replace(self, max_connections=connections)

    @property
    def last_port(self) -> int:
        """The last of the services' ports."""
        return self.first_port + self.slots - 1


def render(config: GatewayConfig) -> str:
    """The text of haproxy.cfg."""
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
