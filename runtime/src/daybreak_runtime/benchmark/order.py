"""What is asked for: the variable DAYBREAK_BENCHMARK, or a file, as JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

VARIABLE = "DAYBREAK_BENCHMARK"
REQUESTS = "RequestsPerSecond"
TOKENS = "TokensPerSecond"
"""Of answers."""


@dataclass(frozen=True)
class Engine:
    """An engine that is started anew for each setting: `vllm serve`."""

    source: str
    """What vLLM loads: a path, a repository, or a bucket that it reads itself."""
    model: str
    """What requests call it."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Engine arguments that are the same in each step, by vLLM's names."""
    bucket: str | None = None
    """Where the weights are copied from before the first start, to the path `source`."""
    gpus: int = 0
    port: int = 8100
    start_seconds: float = 1800.0
    """How long a start may take."""


@dataclass(frozen=True)
class Service:
    """An LLMService that is measured as it is."""

    url: str
    """Base URL of its OpenAI API."""
    model: str
    key: str | None = None
    """Name of the variable with the API key."""


@dataclass(frozen=True)
class Lengths:
    """How lengths in tokens are distributed."""

    kind: str = "LogNormal"
    """`Fixed`, `Uniform` or `LogNormal`."""
    mean: float = 200.0
    """Of `Fixed` and `LogNormal`."""
    sigma: float = 0.7
    """Of the logarithm, with `LogNormal`."""
    min: int = 4
    max: int = 1024


@dataclass(frozen=True)
class RecordedFrom:
    """A table with lengths that were recorded."""

    uri: str
    """A file or folder: `file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`."""
    format: str = "Auto"
    """`JSONL`, `Parquet` or `CSV`; `Auto` goes by the files' names."""
    prompt_column: str = "prompt"
    output_column: str = "output"
    shown: str = ""
    """The place as the person has written it, for messages."""


@dataclass(frozen=True)
class Load:
    """What is asked, and how often."""

    clients: tuple[int, ...] = ()
    """Closed loop: so many clients, each of which asks again as soon as it is answered."""
    rates: tuple[float, ...] = ()
    """Open loop: so many requests in each second, whether others are answered or not."""
    burstiness: float = 1.0
    """Shape of the gamma distribution of the pauses of an open loop; 1: a Poisson process."""
    prompt_tokens: Lengths = field(default_factory=Lengths)
    output_tokens: Lengths = field(default_factory=Lengths)
    recorded: tuple[tuple[int, int], ...] = ()
    """Lengths of prompts and answers that were recorded, instead of the two distributions."""
    recorded_from: RecordedFrom | None = None
    """Where such lengths are read before the first step; None: they are not."""
    prefix_tokens: int = 0
    """Tokens with which prompts begin that share a prefix; they count among the prompt's."""
    prefixes: int = 1
    """How many such prefixes there are."""
    seconds: float = 20.0
    """Of one measured window."""
    windows: int = 3
    """Windows of each step; how they differ is the noise."""
    ramp_seconds: float = 5.0
    """Of the same load before the first window, which are not counted."""
    seed: int = 0


@dataclass(frozen=True)
class Dimension:
    """One engine argument that is tried with several values, from the first on."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Objective:
    """What is best."""

    maximize: str = REQUESTS
    ttft_p99_ms: float | None = None
    """Limit of the time to the first token."""
    tpot_p99_ms: float | None = None
    """Limit of the time of each further token."""
    error_rate: float = 0.01
    """Limit of the share of requests without an answer."""


@dataclass(frozen=True)
class Stop:
    """When there is no use in going on."""

    patience: int = 1
    """How many values in a row may be no better, beyond noise, than the best."""
    noise_factor: float = 2.0
    """How many standard errors of a difference count as noise."""
    min_noise: float = 0.02
    """The noise is never taken to be less than this share."""


@dataclass(frozen=True)
class Budget:
    """What the whole may cost."""

    seconds: float | None = None
    gpu_seconds: float | None = None
    engine_starts: int | None = None


@dataclass(frozen=True)
class Order:
    """A benchmark."""

    load: Load
    uid: str = ""
    """Of the LLMBenchmark."""
    engine: Engine | None = None
    service: Service | None = None
    sweep: tuple[Dimension, ...] = ()
    objective: Objective = field(default_factory=Objective)
    stop: Stop = field(default_factory=Stop)
    budget: Budget = field(default_factory=Budget)
    output: str | None = None
    """Where the report goes: `file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`."""
    port: int = 8300
    """Where progress is told."""

    @classmethod
    def from_environment(cls) -> Self:
        """Read the variable; raises KeyError or ValueError when it is not there or not an order."""
        return cls.read(json.loads(os.environ[VARIABLE]))

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Read an order in its JSON form. Raises ValueError for one that cannot be carried out."""
        parts: dict[str, Any] = dict(plain)
        load = dict(parts.get("load") or {})
        for name in ("prompt_tokens", "output_tokens"):
            if name in load:
                load[name] = _made(Lengths, load[name])
        if load.get("recorded_from") is not None:
            load["recorded_from"] = _made(RecordedFrom, load["recorded_from"])
        load["recorded"] = tuple((int(one), int(other)) for one, other in load.get("recorded", ()))
        parts["load"] = _made(Load, load)
        parts["sweep"] = tuple(_made(Dimension, each) for each in parts.get("sweep", ()))
        kinds = {
            "engine": Engine,
            "service": Service,
            "objective": Objective,
            "stop": Stop,
            "budget": Budget,
        }
        for name, kind in kinds.items():
            if parts.get(name) is not None:
                parts[name] = _made(kind, parts[name])
        found: Self = _made(cls, parts)
        found.check()
        return found

    def check(self) -> None:
        """Raises ValueError where parts do not go together."""
        if (self.engine is None) == (self.service is None):
            raise ValueError("a benchmark has either an engine or a service")
        if bool(self.load.clients) == bool(self.load.rates):
            raise ValueError("a load has either clients or rates")
        if self.sweep and self.engine is None:
            raise ValueError("a sweep needs an engine of its own")


def _made(kind: Any, plain: Mapping[str, Any]) -> Any:
    unknown = sorted(set(plain) - {each.name for each in fields(kind)})
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()})
