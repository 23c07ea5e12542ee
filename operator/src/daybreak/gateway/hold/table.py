"""What the gateway is told of a gate, and what it tells of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self
from urllib.parse import quote

from daybreak.gateway.hold.keys import ApiKey

MAX_LINE = 24_000
"""Bytes of a command that fit HAProxy's buffer (of 32 KiB) with room to spare."""

HOLD_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
"""Upper bounds, in seconds, for how long requests are held."""
ADDED_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The same for how long they are held although they could pass."""


class Gate(StrEnum):
    """What happens to a request that arrives."""

    OPEN = "open"
    """It passes, as soon as a server is up."""
    CLOSED = "closed"
    """It is held."""
    FAILED = "failed"
    """It is refused with the reason, and so are requests that are held."""


class Policy(StrEnum):
    """How a replica is chosen for a request, where it is not the least busy one: `choose.lua`."""

    SESSION = "session"
    """The same one for the same header `x-session-id`."""
    PREFIX = "prefix"
    """The same one for the same beginning of the prompt."""
    TURNS = "turns"
    """Each in turn."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a replica is chosen among those of one model."""

    policy: Policy
    most: int = 0
    """Requests that a replica takes at a time; 0: any number."""
    spare: int = 0
    """Of SESSION: how many others are tried when a session's own has too much; 0: the session waits.
    Of PREFIX: by how many requests its own may be ahead of the idlest replica."""

    @property
    def word(self) -> str:
        """As `daybreak set` takes it."""
        return f"{self.policy}:{self.most}:{self.spare}"


@dataclass(frozen=True, slots=True)
class Slot:
    """One gate as the gateway must treat it: a model's, or the front of a service with several."""

    service: str
    gate: Gate
    epoch: int
    """Number of the gate's change; a snapshot gives it back as acknowledged."""
    model: str = ""
    """Empty: the front, which takes the requests whose model is not known."""
    uid: str = ""
    """Of the LLMService: another one of the same name is another service."""
    port: int = 0
    """The service's; 0: the port of the service's own backend."""
    models: Sequence[str] = ()
    """Names that its requests bear: the model's, and those of its LoRA adapters."""
    adapters: Sequence[str] = ()
    """Those of them that are LoRA adapters, which Serve's proxy does not know."""
    front: bool = True
    """Whether it takes the requests to its port that are not another gate's: of one that is alone, all."""
    listed: Sequence[str] = ()
    """Of what takes those: names that requests to the service may bear; none: those of `models`. `/v1/models`
    lists them, others are answered 404."""
    waits: bool = False
    """Of what takes those: whether bodies are waited for, to know the model or the prompt's beginning."""
    choice: Choice | None = None
    """How a replica is chosen; None: the least busy one."""
    queue: int | None = None
    """Requests that may wait for a replica while the gate is open, more are refused; None: any number."""
    replicas_listen: bool = False
    """Whether replicas are asked directly; else the Serve proxy is, which knows fewer paths."""
    paths: str = ""
    """Of what takes the requests to its port: `any`, any method, path and body passes; `v2`, the same below
    `/v2`; `routes`, the same at `routes` and below; empty: OpenAI's paths."""
    routes: Sequence[str] = ()
    """Prefixes of paths, each without its first `/` and with one at its end."""
    guarded: bool = False
    """Whether its replicas look at the fields of bodies themselves: then the gateway does not, while its gate
    is open and one of them is up. `check` must be a path at which only such replicas are well."""
    check: str = ""
    """Path at which its servers are asked whether they are well; empty: that of Ray pods."""
    reason: str = ""
    """Why the gate is `failed`, in words for clients."""
    hold_ms: int = 300_000
    max_held: int = 1000
    max_body_bytes: int = 10 * 2**20
    retry_after: int = 10
    """Seconds, told to who is refused."""
    origins: Sequence[str] = ()
    """Origins whose pages may read answers; `*`: all. Told of where `keys` are."""
    extra: Sequence[str] = ()
    """Fields of requests that pass though `gateway/fields` refuses them."""
    probes: Sequence[str] = ()
    """Requests that do not count as activity: `agent/<beginning of a user agent>`, `key/<name of a key>` or
    `path<path>`. Told of where `keys` are."""
    keys: Sequence[ApiKey] = ()
    """The API keys that open the service; with none it is open to all. Told of what takes the requests whose
    model is not known."""

    @property
    def name(self) -> str:
        """What it is called towards the operator."""
        return gate_name(self.service, self.model)

    def words(self) -> str:
        """The words of the command `daybreak set`. Raises ValueError when they would be too long."""
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
    """What a model's gate is called towards the operator; without a model, the front of a service."""
    return f"{service}/{model}" if model else service


def _names(names: Sequence[str]) -> str:
    """Names as one word."""
    return ",".join(quote(name, safe="") for name in names)


@dataclass(frozen=True, slots=True)
class Times:
    """How long something took, for many requests."""

    sum_ms: int = 0
    counts: Sequence[int] = ()
    """How many took up to each bound and longer than the one before; the last of them: longer than all."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """What has been done with an API key since HAProxy started."""

    requests: int
    """Requests that brought it, those that were refused included."""
    in_flight: int
    """Requests with it that are here, those that are held included."""
    refused: int
    """Requests that were refused for its limits or its models."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """One gate as the gateway sees it."""

    slot: str
    """Its backend in HAProxy."""
    service: str
    model: str
    """Empty: the front of a service with several models."""
    gate: Gate
    epoch: int
    arrivals: int
    """Requests that arrived since HAProxy started."""
    held: int
    in_flight: int
    """Requests that have passed the gate and have not ended, streams included."""
    idle_ms: int
    """Milliseconds since the last arrival or end; never more than the truth, up to a second less."""
    servers_up: int
    ends: Mapping[str, int]
    """Requests that left the gate since HAProxy started, by reason: passed, hold_full, queue_full, timed_out,
    failed, gone, …"""
    held_ms: int = 0
    """Milliseconds for which the oldest of those that are held has waited; 0: none is."""
    past_lua: int = 0
    """Requests among those that arrived that went to the model without coming to Lua."""
    wakes: int = 0
    """How often the gate was opened after it had been closed."""
    connect_ms: int = 0
    """Mean time to connect to a server, of the latest 1,024 requests."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Answers by the class of their status (`2xx`), the gateway's own refusals included."""
    response_ms: int = 0
    """Mean time until a model's answer began, of the latest 1,024 requests."""
    holds: Times = Times()
    """How long requests were held, in HOLD_BUCKETS."""
    keys: Mapping[str, KeyState] = field(default_factory=dict)
    """The service's keys by their names, where `Slot.keys` are told."""
    clusters: tuple[str, ...] | None = None
    """The RayClusters that its requests go to, or are still at; None: that is not known."""
    added: Times = Times()
    """How long those that then passed were held although they could pass, in ADDED_BUCKETS."""

    @property
    def name(self) -> str:
        """What it is called towards the operator."""
        return gate_name(self.service, self.model)

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read one row of the answer to `daybreak show`."""
        times: dict[str, Any] = {name: Times(**row[name]) for name in ("holds", "added") if name in row}
        if "keys" in row:
            times["keys"] = {name: KeyState(**found) for name, found in row["keys"].items()}
        return cls(**{**row, **times, "gate": Gate(row["gate"])})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All gates at one moment."""

    boot: str
    """Changes when HAProxy was started anew, and its counts with it."""
    slots: Mapping[str, SlotState]
    """By backend."""

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read the answer to `daybreak show`."""
        rows = [SlotState.parse(row) for row in found["slots"]]
        return cls(boot=found["boot"], slots={row.slot: row for row in rows})
