"""Outcome of a step: rates of its windows, percentiles, and the noise of a comparison. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, variance
from typing import Any

from daybreak_runtime.benchmark.order import REQUESTS, Objective

Settings = dict[str, Any]
"""Engine arguments that differ from those of the baseline."""


@dataclass(frozen=True)
class FinishedRequest:
    """Request that ended."""

    sent: float
    ttft: float
    latency: float
    tokens: int
    error: str = ""


@dataclass(frozen=True)
class Latency:
    """Percentiles, in milliseconds."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True)
class EngineSeen:
    """Metrics of the engine during the windows."""

    kv_cache: float = 0.0
    """Maximum share of the KV cache in use."""
    running: float = 0.0
    """Mean number of running requests."""
    waiting: float = 0.0
    """Mean number of waiting requests."""
    preemptions: int = 0
    ttft_ms: float = 0.0
    """Mean time to the first token, measured by the engine."""
    tpot_ms: float = 0.0
    """Mean time of each further token, measured by the engine."""


@dataclass(frozen=True)
class Step:
    """One load on one engine."""

    settings: Settings
    clients: int | None
    rate: float | None
    requests_per_second: float
    tokens_per_second: float
    requests: int
    """Requests that were answered within the windows."""
    errors: int
    ttft_ms: Latency
    tpot_ms: Latency
    latency_ms: Latency
    windows: tuple[float, ...]
    """Objective of each window."""
    first_error: str = ""
    engine: EngineSeen | None = None
    exceeds: str = ""
    """Limit of the objective that the step exceeds; empty: none."""

    @property
    def value(self) -> float:
        """Mean objective of the windows."""
        return fmean(self.windows) if self.windows else 0.0

    @property
    def plain(self) -> dict[str, Any]:
        """Step in JSON's types."""
        found = {name: each for name, each in asdict(self).items() if each not in (None, "")}
        found["windows"] = list(self.windows)
        return found


@dataclass(frozen=True)
class Trial:
    """One start of an engine, and all loads on it."""

    settings: Settings
    steps: tuple[Step, ...] = ()
    failure: str = ""
    """Reason why the engine did not start, or died."""
    start_seconds: float = 0.0
    seconds: float = 0.0
    """Total seconds, start included."""

    @property
    def best(self) -> Step | None:
        """Best step that keeps the limits, or None."""
        good = [step for step in self.steps if not step.exceeds]
        return max(good, key=lambda step: step.value, default=None)


@dataclass(frozen=True)
class Noise:
    """Difference between two measurements of the same settings.

    Args:
        relative: Standard deviation of a window, as a share of the mean.
        factor: Number of standard errors of a difference that count as noise.
        least: Minimum share below which a difference is always noise.
    """

    relative: float
    factor: float = 2.0
    least: float = 0.02
    samples: int = field(default=0)

    def of(self, one: Step, other: Step) -> float:
        """Return the maximum difference of two steps that is noise, in the unit of the objective."""
        counts = max(1, len(one.windows)), max(1, len(other.windows))
        error = self.relative * math.sqrt(1 / counts[0] + 1 / counts[1])
        return max(self.factor * error, self.least) * max(one.value, other.value)

    def better(self, one: Step, other: Step) -> bool:
        """Return True if `one` is better than `other`, beyond noise."""
        return one.value - other.value > self.of(one, other)


def noise(steps: Sequence[Step], factor: float, least: float) -> Noise:
    """Return the noise, pooled over the windows of all steps, because each step has too few."""
    parts = [
        (len(step.windows) - 1, variance(step.windows) / step.value**2)
        for step in steps
        if len(step.windows) > 1 and step.value > 0
    ]
    freedom = sum(count for count, _ in parts)
    pooled = sum(count * each for count, each in parts) / freedom if freedom else 0.0
    return Noise(math.sqrt(pooled), factor, least, freedom)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the ordered values does not exceed, or 0."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def step(
    settings: Settings,
    level: tuple[int | None, float | None],
    observed: Sequence[FinishedRequest],
    windows: Sequence[tuple[float, float]],
    objective: Objective,
    engine: EngineSeen | None = None,
) -> Step:
    """Return the step of the requests that ended within the windows.

    A request that began before a window counts where it ended: at a steady load as many begin before as end
    after it.
    """
    inside = [
        [one for one in observed if opens <= one.sent + one.latency < closes] for opens, closes in windows
    ]
    ended = [one for each in inside for one in each]
    good = [one for one in ended if not one.error]
    failed = Counter(one.error for one in ended if one.error)
    seconds = sum(closes - opens for opens, closes in windows)
    weights = [
        sum(1 if objective.maximize == REQUESTS else one.tokens for one in each if not one.error) / (b - a)
        for each, (a, b) in zip(inside, windows, strict=True)
    ]
    found = Step(
        settings=settings,
        clients=level[0],
        rate=level[1],
        requests_per_second=round(len(good) / seconds, 3),
        tokens_per_second=round(sum(one.tokens for one in good) / seconds, 1),
        requests=len(good),
        errors=len(ended) - len(good),
        ttft_ms=_latency([one.ttft for one in good]),
        tpot_ms=_latency([(one.latency - one.ttft) / (one.tokens - 1) for one in good if one.tokens > 1]),
        latency_ms=_latency([one.latency for one in good]),
        windows=tuple(round(each, 4) for each in weights),
        first_error=failed.most_common(1)[0][0][:300] if failed else "",
        engine=engine,
    )
    return Step(**{**found.__dict__, "exceeds": exceeds(found, objective)})


def exceeds(found: Step, objective: Objective) -> str:
    """Return the first limit that a step exceeds, for display, or nothing if it keeps all."""
    if not found.requests:
        return "no request was answered"
    share = found.errors / (found.requests + found.errors)
    if share > objective.error_rate:
        return f"{share:.1%} of the requests failed, of which {objective.error_rate:.1%} may"
    for name, limit, observed in (
        ("TTFT", objective.ttft_p99_ms, found.ttft_ms.p99),
        ("TPOT", objective.tpot_p99_ms, found.tpot_ms.p99),
    ):
        if limit is not None and observed > limit:
            return f"p99 of {name} is {observed:.0f} ms, above {limit:.0f} ms"
    return ""


def _latency(seconds: Sequence[float]) -> Latency:
    ordered = sorted(1000 * each for each in seconds)
    return Latency(*(round(percentile(ordered, share), 2) for share in (0.5, 0.95, 0.99)))
