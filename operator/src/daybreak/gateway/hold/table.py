"""State of a gate: the configuration that the gateway receives and the state that it reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self
from urllib.parse import quote

from daybreak.gateway.hold.keys import ApiKey

MAX_LINE = 24_000
"""Maximum bytes of a command, which fit HAProxy's buffer (32 KiB) with a margin."""

HOLD_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
"""Upper bounds, in seconds, for the time for which requests are held."""
ADDED_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, in seconds, for the time for which requests are held although they could pass."""


class Gate(StrEnum):
    """Treatment of an arriving request."""

    OPEN = "open"
    """The request passes as soon as a server is up."""
    CLOSED = "closed"
    """The request is held."""
    FAILED = "failed"
    """The request is rejected with the reason, as are held requests."""


class Policy(StrEnum):
    """Selection of a replica for a request, if it is not the least busy one: `choose.lua`."""

    SESSION = "session"
    """Same replica for the same header `x-session-id`."""
    PREFIX = "prefix"
    """Same replica for the same beginning of the prompt."""
    TURNS = "turns"
    """Each replica in turn."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Replica selection of one model."""

    policy: Policy
    most: int = 0
    """Maximum number of concurrent requests of a replica; 0 is unlimited."""
    spare: int = 0
    """For SESSION: number of other replicas that are tried if the session's own replica is overloaded; 0: the
    session waits. For PREFIX: maximum number of requests by which the prompt's own replica may be ahead of
    the least busy one."""

    @property
    def word(self) -> str:
        """Value of `choice` in the command `daybreak set`."""
        return f"{self.policy}:{self.most}:{self.spare}"


@dataclass(frozen=True, slots=True)
class Slot:
    """Gate that the gateway must configure, of a model or of a service with several models."""

    service: str
    gate: Gate
    epoch: int
    """Number of the gate's change. A snapshot returns it as acknowledged."""
    model: str = ""
    """Name of the model. Empty: the front, which takes the requests whose model is not known."""
    uid: str = ""
    """UID of the LLMService; another one of the same name is another service."""
    port: int = 0
    """Port of the service; 0: the port of the service's own backend."""
    models: Sequence[str] = ()
    """Model names of the gate's requests: those of the model and of its LoRA adapters."""
    adapters: Sequence[str] = ()
    """Names in `models` of LoRA adapters, which Serve's proxy does not know."""
    front: bool = True
    """True if the gate takes all requests to its port that do not belong to another gate. The only gate of a
    service takes all requests."""
    listed: Sequence[str] = ()
    """If `front`: model names that requests to the service may use. Defaults to `models`. `/v1/models` lists
    them, and other names receive 404."""
    waits: bool = False
    """If `front`: True if HAProxy waits for bodies, to read the model or the beginning of the prompt."""
    choice: Choice | None = None
    """Replica selection; None: the least busy replica."""
    queue: int | None = None
    """Maximum number of requests that wait for a replica while the gate is open; further requests are
    rejected. None is unlimited."""
    replicas_listen: bool = False
    """True if requests go directly to replicas; otherwise they go to the Serve proxy, which knows fewer
    paths."""
    paths: str = ""
    """If `front`: allowed paths. `any`: any method, path and body; `v2`: the same below `/v2`; `routes`: the
    same at `routes` and below; empty: OpenAI's paths."""
    routes: Sequence[str] = ()
    """Path prefixes, each without the leading `/` and with a trailing one."""
    guarded: bool = False
    """True if the replicas check the fields of bodies themselves. The gateway then does not, while its gate
    is open and a replica is up. `check` must be a path that only such replicas answer as healthy."""
    check: str = ""
    """Path of health checks. Defaults to that of Ray pods."""
    reason: str = ""
    """Reason of the `failed` gate, for display to clients."""
    hold_ms: int = 300_000
    max_held: int = 1000
    max_body_bytes: int = 10 * 2**20
    retry_after: int = 10
    """Seconds that rejected clients receive in `Retry-After`."""
    origins: Sequence[str] = ()
    """Origins whose pages may read responses; `*`: all. Set on the gate that has `keys`."""
    extra: Sequence[str] = ()
    """Request fields that the service allows although `gateway/fields` rejects them."""
    probes: Sequence[str] = ()
    """Requests that do not count as activity: `agent/<beginning of a user agent>`, `key/<name of a key>` or
    `path<path>`. Set on the gate that has `keys`."""
    keys: Sequence[ApiKey] = ()
    """API keys of the service; with none the service is open to all clients. Set on the gate that takes the
    requests whose model is not known."""

    @property
    def name(self) -> str:
        """Name of the gate in reports to the operator."""
        return gate_name(self.service, self.model)

    def words(self) -> str:
        """Return the words of the command `daybreak set`. Raises ValueError if they are too long."""
        words = {
            "service": quote(self.service, safe=""),
            "uid": quote(self.uid, safe=""),
            "model": quote(self.model, safe=""),
            **({"port": self.port} if self.port else {}),
            "gate": self.gate.value,
            "epoch": self.epoch,
            "models": _names(self.models),
            "adapters": _names(self.adapters),
            "front": int(self.front),
            "listed": _names(self.listed or self.models) if self.front else "",
            "waits": int(self.waits),
            "choice": self.choice.word if self.choice else "",
            "queue": "" if self.queue is None else self.queue,
            "replicas_listen": int(self.replicas_listen),
            "paths": self.paths if self.front else "",
            "routes": _names(self.routes) if self.front else "",
            "guarded": int(self.guarded),
            "check": quote(self.check, safe="/"),
            "reason": quote(self.reason[:1000], safe=""),
            "hold_ms": self.hold_ms,
            "max_held": self.max_held,
            "max_body_bytes": self.max_body_bytes,
            "retry_after": self.retry_after,
            "origins": _names(self.origins) if self.front else "",
            "extra": _names(self.extra),
            "probes": _names(self.probes) if self.front else "",
            "keys": ",".join(key.word for key in self.keys) if self.front else "",
        }
        text = " ".join(f"{key}={value}" for key, value in words.items())
        if len(text) > MAX_LINE:
            raise ValueError(
                f"service {self.service}: the names of its models, or its keys, are too long together"
            )
        return text


def gate_name(service: str, model: str) -> str:
    """Return the name of a gate in reports to the operator: that of a model, or the front without a model."""
    return f"{service}/{model}" if model else service


def _names(names: Sequence[str]) -> str:
    """Return names as one comma-separated word."""
    return ",".join(quote(name, safe="") for name in names)


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of many requests."""

    sum_ms: int = 0
    counts: Sequence[int] = ()
    """Number of requests up to each bound and above the previous one; the last item counts those above all
    bounds."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """Usage of an API key since HAProxy started."""

    requests: int
    """Requests with the key, rejected ones included."""
    in_flight: int
    """Current requests with the key, held ones included."""
    refused: int
    """Requests that were rejected because of the key's limits or models."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """Gate as the gateway reports it."""

    slot: str
    """Backend of the gate in HAProxy."""
    service: str
    model: str
    """Name of the model. Empty: the front of a service with several models."""
    gate: Gate
    epoch: int
    arrivals: int
    """Requests that arrived since HAProxy started."""
    held: int
    in_flight: int
    """Requests that have passed the gate and have not ended, streams included."""
    idle_ms: int
    """Milliseconds since the last arrival or end; never more than the true value, up to a second less."""
    servers_up: int
    ends: Mapping[str, int]
    """Requests that left the gate since HAProxy started, by reason: passed, hold_full, queue_full, timed_out,
    failed, gone, …"""
    held_ms: int = 0
    """Milliseconds for which the oldest held request has waited; 0 if none is held."""
    past_lua: int = 0
    """Requests among `arrivals` that went to the model without passing through Lua."""
    wakes: int = 0
    """Number of times that the gate was opened after it had been closed."""
    connect_ms: int = 0
    """Mean time to connect to a server, over the latest 1,024 requests."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Responses by status class (`2xx`), the gateway's own rejections included."""
    response_ms: int = 0
    """Mean time until a model's response began, over the latest 1,024 requests."""
    holds: Times = Times()
    """Time for which requests were held, in HOLD_BUCKETS."""
    keys: Mapping[str, KeyState] = field(default_factory=dict)
    """Usage of the service's keys by name, on the gate with `Slot.keys`."""
    clusters: tuple[str, ...] | None = None
    """RayClusters that receive the gate's requests or still have some; None if unknown."""
    added: Times = Times()
    """Time for which requests that then passed were held although they could pass, in ADDED_BUCKETS."""

    @property
    def name(self) -> str:
        """Name of the gate in reports to the operator."""
        return gate_name(self.service, self.model)

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Parse one row of the response to `daybreak show`."""
        times: dict[str, Any] = {name: Times(**row[name]) for name in ("holds", "added") if name in row}
        if "keys" in row:
            times["keys"] = {name: KeyState(**found) for name, found in row["keys"].items()}
        return cls(**{**row, **times, "gate": Gate(row["gate"])})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Atomic snapshot of all gates."""

    boot: str
    """Identifier of this run of HAProxy. A restart changes it and resets the counts."""
    slots: Mapping[str, SlotState]
    """States by backend."""

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Parse the response to `daybreak show`."""
        rows = [SlotState.parse(row) for row in found["slots"]]
        return cls(boot=found["boot"], slots={row.slot: row for row in rows})
