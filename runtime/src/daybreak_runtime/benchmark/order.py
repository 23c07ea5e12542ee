"""Order of a benchmark: the variable DAYBREAK_BENCHMARK, or a file, as JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

VARIABLE = "DAYBREAK_BENCHMARK"
REQUESTS = "RequestsPerSecond"
TOKENS = "TokensPerSecond"
"""Token rate of answers as the objective."""


@dataclass(frozen=True)
class Engine:
    """Engine that is restarted for each setting: `vllm serve`."""

    source: str
    """Source for vLLM: a path, a repository, or a bucket that it reads itself."""
    model: str
    """Model name in requests."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Engine arguments that are the same in each step, by vLLM's names."""
    bucket: str | None = None
    """Bucket from which the weights are copied before the first start, to the path `source`."""
    gpus: int = 0
    port: int = 8100
    start_seconds: float = 1800.0
    """Maximum seconds of a start."""


@dataclass(frozen=True)
class Service:
    """LLMService that is measured without changes."""

    url: str
    """Base URL of the service's OpenAI API."""
    model: str
    key: str | None = None
    """Name of the variable with the API key."""


@dataclass(frozen=True)
class Lengths:
    """Distribution of lengths in tokens."""

    kind: str = "LogNormal"
    """`Fixed`, `Uniform` or `LogNormal`."""
    mean: float = 200.0
    """Mean of `Fixed` and `LogNormal`."""
    sigma: float = 0.7
    """Standard deviation of the logarithm, with `LogNormal`."""
    min: int = 4
    max: int = 1024


@dataclass(frozen=True)
class RecordedFrom:
    """Table with recorded lengths."""

    uri: str
    """File or folder: `file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`."""
    format: str = "Auto"
    """`JSONL`, `Parquet` or `CSV`; `Auto` depends on the files' names."""
    prompt_column: str = "prompt"
    output_column: str = "output"
    shown: str = ""
    """Location as the user wrote it, for messages."""


@dataclass(frozen=True)
class Load:
    """Requests and their frequency."""

    clients: tuple[int, ...] = ()
    """Closed loop: numbers of clients, each of which sends its next request as soon as it is answered."""
    rates: tuple[float, ...] = ()
    """Open loop: requests per second, independent of answers."""
    burstiness: float = 1.0
    """Shape of the gamma distribution of the pauses of an open loop; 1: a Poisson process."""
    prompt_tokens: Lengths = field(default_factory=Lengths)
    output_tokens: Lengths = field(default_factory=Lengths)
    recorded: tuple[tuple[int, int], ...] = ()
    """Recorded lengths of prompts and answers, instead of the two distributions."""
    recorded_from: RecordedFrom | None = None
    """Source of recorded lengths, read before the first step; None: there is none."""
    prefix_tokens: int = 0
    """Length in tokens of the shared prefix of prompts; it is part of the prompt's length."""
    prefixes: int = 1
    """Number of different prefixes."""
    seconds: float = 20.0
    """Seconds of one measured window."""
    windows: int = 3
    """Windows of each step; their differences are the noise."""
    ramp_seconds: float = 5.0
    """Seconds of the same load before the first window, which are not counted."""
    seed: int = 0


@dataclass(frozen=True)
class Dimension:
    """Engine argument that is tried with several values, in order."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Objective:
    """Definition of the best step."""

    maximize: str = REQUESTS
    ttft_p99_ms: float | None = None
    """Limit of the time to the first token."""
    tpot_p99_ms: float | None = None
    """Limit of the time of each further token."""
    error_rate: float = 0.01
    """Limit of the share of requests without an answer."""


@dataclass(frozen=True)
class Stop:
    """Condition for ending the search."""

    patience: int = 1
    """Maximum number of consecutive values that are no better, beyond noise, than the best."""
    noise_factor: float = 2.0
    """Number of standard errors of a difference that count as noise."""
    min_noise: float = 0.02
    """Minimum noise, as a share."""


@dataclass(frozen=True)
class Budget:
    """Maximum cost of the benchmark."""

    seconds: float | None = None
    gpu_seconds: float | None = None
    engine_starts: int | None = None


@dataclass(frozen=True)
class Order:
    """Order of a benchmark."""

    load: Load
    uid: str = ""
    """UID of the LLMBenchmark."""
    engine: Engine | None = None
    service: Service | None = None
    sweep: tuple[Dimension, ...] = ()
    objective: Objective = field(default_factory=Objective)
    stop: Stop = field(default_factory=Stop)
    budget: Budget = field(default_factory=Budget)
    output: str | None = None
    """Location of the report: `file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`."""
    port: int = 8300
    """Port of the progress."""

    @classmethod
    def from_environment(cls) -> Self:
        """Read the order from the variable. Raises KeyError or ValueError if it is missing or invalid."""
        return cls.read(json.loads(os.environ[VARIABLE]))

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Read an order from its JSON form. Raises ValueError if it is invalid."""
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
        """Raise ValueError if parts contradict each other."""
        if (self.engine is None) == (self.service is None):
            raise ValueError("a benchmark has either an engine or a service")
        if bool(self.load.clients) == bool(self.load.rates):
            raise ValueError("a load has either clients or rates")
        if self.sweep and self.engine is None:
            raise ValueError("a sweep needs a separate engine")


def _made(kind: Any, plain: Mapping[str, Any]) -> Any:
    unknown = sorted(set(plain) - {each.name for each in fields(kind)})
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()})
