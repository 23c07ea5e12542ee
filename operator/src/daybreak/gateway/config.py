"""HAProxy's configuration, made from haproxy.cfg.j2."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import jinja2

from daybreak.gateway.table import ADDED_BUCKETS, HOLD_BUCKETS

HERE = Path(__file__).parent
TEMPLATE = HERE / "haproxy.cfg.j2"

ERRORS = (
    (400, "The request is not valid HTTP, or broke off.", "invalid_request_error", "bad_request"),
    (403, "The request is not allowed.", "invalid_request_error", "forbidden"),
    (405, "The method is not allowed here.", "invalid_request_error", "method_not_allowed"),
    (408, "The request did not arrive in time.", "invalid_request_error", "request_timeout"),
    (413, "The request is too large.", "invalid_request_error", "request_too_large"),
    (422, "The request cannot be processed.", "invalid_request_error", "unprocessable"),
    (429, "Too many requests: try again later.", "rate_limit_error", "too_many_requests"),
    (500, "The gateway failed.", "server_error", "internal_error"),
    (501, "The request asks for what the gateway does not do.", "invalid_request_error", "not_implemented"),
    (502, "The model ended the connection without a valid answer.", "server_error", "bad_gateway"),
    (
        503,
        "No replica of the model took the request in time: all are busy, or none can be reached. Try again.",
        "server_error",
        "service_unavailable",
    ),
    (504, "The model did not answer in time.", "server_error", "gateway_timeout"),
)
"""What HAProxy itself answers: status, message, type and code, in OpenAI's error shape.

Not before a request's head is here, whole and well formed: what it says then (400 and 408, a line of HTML) is
fixed in HAProxy 2.8, and neither `http-error` nor `errorfile` changes it.
"""

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/audio/transcriptions",
    "/v1/score",
    "/tokenize",
    "/detokenize",
)
"""Where models are asked, with POST: what both Ray Serve LLM's ingress and vLLM's own server answer."""
REPLICA_PATHS = (
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/audio/translations",
    "/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/classify",
    "/pooling",
    "/v2/embed",
)
"""The same for what vLLM's own server alone answers: a replica's own port."""

_OWN_DESCRIPTORS = 100


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
    def several(self) -> Path:
        """Ports of the services whose bodies are waited for: with several backends, or routing by prefix."""
        return self.folder / "several.map"

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

    def empty(self) -> None:
        """Write all of them, without an entry."""
        for file in (self.awake, self.models, self.several, self.adapters, self.choices, self.queues):
            file.write_text("")


@dataclass(frozen=True)
class GatewayConfig:
    """What can be set of one gateway."""

    folder: Path
    """A private folder: the admin socket and the configuration lie in it."""
    address: str = "*"
    """The address that services are reached at, in HAProxy's words; `*` is every IPv4 address."""
    first_port: int = 20000
    slots: int = 1024
    """How many services there can be: each has a port of its own."""
    max_connections: int = 10000
    """Connections of clients at a time, held ones included. The hard limit of open files (RLIMIT_NOFILE)
    should be at least `descriptors`, 22,148 with these defaults; a lower one allows fewer connections."""
    model_backends: int = 256
    """Backends for the models of services that have several: more of them are asked by the Serve proxy."""
    stream_timeout: int = 3600
    """Seconds for which a request or an answer may be silent."""
    queue_timeout: int = 600
    """Seconds for which a request may wait for a server that has as many as it takes."""
    head_timeout: int = 10
    """Seconds within which a request's head must have arrived."""
    keep_alive_timeout: int = 300
    """Seconds for which a client's connection may be without a request."""
    release_rate: float = 250
    """Held requests released per second and service when its gate opens: about what one Serve proxy, one
    Python process, takes in, so that the first server to come up is not buried."""
    release_burst: int = 20
    """Held requests that may be released at once."""
    max_choices: int = 16
    """The largest `n` that a request may ask for: the work of that many requests."""
    buffer_bytes: int = 32 * 1024
    """HAProxy's buffer: each held request has one, and a request's head must fit it."""
    small: int = 28 * 1024
    """Bytes of a body that is looked at as a whole: with a head it fits the buffer."""
    hard_stop: int = 7200
    """Seconds after which a stopping gateway ends whatever is left."""

    @property
    def socket(self) -> Path:
        """The admin socket."""
        return self.folder / "admin.sock"

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "haproxy.cfg"

    @property
    def maps(self) -> Maps:
        """The maps that HAProxy looks things up in."""
        return Maps(self.folder)

    @property
    def descriptors(self) -> int:
        """File descriptors that HAProxy needs: two for each connection (the other one is that to the server),
        two for each service (its port and a health check), and some for itself."""
        return 2 * self.max_connections + 2 * self.slots + _OWN_DESCRIPTORS

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


def error_body(message: str, kind: str, code: str) -> str:
    """An error in OpenAI's shape, as JSON."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error})


def render(config: GatewayConfig) -> str:
    """The text of haproxy.cfg."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)  # noqa: S701
    template = environment.from_string(TEMPLATE.read_text())
    return template.render(
        added_buckets=ADDED_BUCKETS,
        address=config.address,
        maps=config.maps,
        model_backends=config.model_backends,
        paths=PATHS,
        queue_timeout=config.queue_timeout,
        replica_paths=REPLICA_PATHS,
        error_body=error_body,
        errors=ERRORS,
        first_port=config.first_port,
        hard_stop=config.hard_stop,
        head_timeout=config.head_timeout,
        hold_buckets=HOLD_BUCKETS,
        keep_alive_timeout=config.keep_alive_timeout,
        last_port=config.last_port,
        lua=HERE,
        max_choices=config.max_choices,
        max_connections=config.max_connections,
        release_burst=config.release_burst,
        release_rate=config.release_rate,
        slots=config.slots,
        buffer_bytes=config.buffer_bytes,
        small=config.small,
        socket=config.socket,
        stream_timeout=config.stream_timeout,
    )
