"""What the gateway is told of a service, and what it tells of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self
from urllib.parse import quote

MAX_LINE = 12_000
"""Bytes of a command that fit HAProxy's buffer with room to spare."""

HOLD_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
"""Upper bounds, in seconds, for how long requests are held."""
ADDED_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The same for how long they are held although they could pass."""

_DIGEST = re.compile("[0-9a-fA-F]{64}")


class Gate(StrEnum):
    """What happens to a request that arrives."""

    OPEN = "open"
    """It passes, as soon as a server is up."""
    CLOSED = "closed"
    """It is held."""
    FAILED = "failed"
    """It is refused with the reason, and so is who is held."""


class Policy(StrEnum):
    """How a replica is chosen for a request, where it is not the least busy one: `choose.lua`."""

    SESSION = "session"
    """The same one for the same header `x-session-id`."""
    PREFIX = "prefix"
    """The same one for the same beginning of the prompt."""
    TURNS = "turns"
    """Each in turn."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Service:
    """One service as the gateway must treat it."""

    name: str
    gate: Gate
    epoch: int
    """Number of the gate's change; a snapshot gives it back as acknowledged."""
    models: Sequence[str] = ()
    """Names that requests may bear: `/v1/models` lists them, others are answered 404."""
    adapters: Sequence[str] = ()
    """Those of them that are LoRA adapters, which Serve's proxy does not know."""
    backends: Mapping[str, int] = field(default_factory=dict)
    """Number of the backend of a model, by its name, where the service has a backend for each of its models.
    Whatever is not in here goes to the service's own."""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """How a replica is chosen, by the model's name, where it is not the least busy one."""
    queues: Mapping[str, int] = field(default_factory=dict)
    """Requests that may wait for a replica while the gate is open, by the model's name; more are refused."""
    replicas_listen: bool = False
    """Whether replicas are asked directly; else the Serve proxy is, which knows fewer paths."""
    reason: str = ""
    """Why the gate is `failed`, in words for clients."""
    hold_ms: int = 300_000
    max_held: int = 1000
    max_body_bytes: int = 10 * 2**20
    retry_after: int = 10
    """Seconds, told to who is refused."""
    keys: Sequence[str] = ()
    """SHA-256 digests of the API keys that open the service, in hexadecimal; with none it is open to all."""

    def __post_init__(self) -> None:
        for key in self.keys:
            if not _DIGEST.fullmatch(key):
                raise ValueError(f"service {self.name}: a key is not a SHA-256 digest in hexadecimal")

    def words(self) -> str:
        """The words of the command `daybreak set`. Raises ValueError when they would be too long."""
        words = {
            "name": quote(self.name, safe=""),
            "gate": self.gate.value,
            "epoch": self.epoch,
            "models": ",".join(quote(model, safe="") for model in self.models),
            "adapters": ",".join(quote(model, safe="") for model in self.adapters),
            "backends": self._of_models(self.backends),
            "choices": self._of_models({model: choice.word for model, choice in self.choices.items()}),
            "queues": self._of_models(self.queues),
            "replicas_listen": int(self.replicas_listen),
            "reason": quote(self.reason[:1000], safe=""),
            "hold_ms": self.hold_ms,
            "max_held": self.max_held,
            "max_body_bytes": self.max_body_bytes,
            "retry_after": self.retry_after,
            "keys": ",".join(key.lower() for key in self.keys),
        }
        text = " ".join(f"{key}={value}" for key, value in words.items())
        if len(text) > MAX_LINE:
            raise ValueError(
                f"service {self.name}: the names of its models, or its keys, are too long together"
            )
        return text

    def _of_models(self, values: Mapping[str, object]) -> str:
        """One value for each model, in their order."""
        return ",".join(str(values.get(model, "-")) for model in self.models) if values else ""


@dataclass(frozen=True)
class Times:
    """How long something took, for many requests."""

    sum_ms: int = 0
    counts: Sequence[int] = ()
    """How many took up to each bound and longer than the one before; the last of them: longer than all."""


@dataclass(frozen=True)
class SlotState:
    """One service as the gateway sees it."""

    slot: int
    name: str
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
    """How requests left the gate since HAProxy started: passed, queue_full, timed_out, failed, gone, …"""
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
    added: Times = Times()
    """How long those that then passed were held although they could pass, in ADDED_BUCKETS."""

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Read one row of the answer to `daybreak show`."""
        times = {name: Times(**row[name]) for name in ("holds", "added") if name in row}
        return cls(**{**row, **times, "gate": Gate(row["gate"])})


@dataclass(frozen=True)
class Snapshot:
    """All services at one moment."""

    boot: str
    """Changes when HAProxy was started anew, and its counts with it."""
    slots: Mapping[int, SlotState]

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read the answer to `daybreak show`."""
        rows = [SlotState.parse(row) for row in found["slots"]]
        return cls(boot=found["boot"], slots={row.slot: row for row in rows})
