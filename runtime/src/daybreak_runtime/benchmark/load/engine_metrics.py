"""Metrics of vLLM in Prometheus' text format, and a summary of several samples."""

import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from prometheus_client.parser import text_string_to_metric_families

from daybreak_runtime.benchmark.outcome import EngineSeen

Metrics = Mapping[str, float]
"""Values by name, summed over labels."""
_PATIENCE_SECONDS = 5.0
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_CACHE = "vllm:kv_cache_usage_perc"
_PREEMPTIONS = "vllm:num_preemptions_total"
_TTFT = "vllm:time_to_first_token_seconds"
_TPOT = "vllm:request_time_per_output_token_seconds"
_KNOWN = {_RUNNING, _WAITING, _CACHE, _PREEMPTIONS}
_KNOWN |= {f"{name}_{part}" for name in (_TTFT, _TPOT) for part in ("sum", "count")}


def fetch(url: str) -> Metrics | None:
    """Return the current metrics, or None if they cannot be read."""
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310 -- our own engine
            return read(answer.read().decode())
    except (urllib.error.URLError, OSError, ValueError):
        return None


def read(text: str) -> Metrics:
    """Return the known values in a text."""
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _KNOWN:
                found[sample.name] += sample.value
    return dict(found)


def summary(samples: Sequence[Metrics]) -> EngineSeen | None:
    """Return a summary of samples in order, or None without samples."""
    if not samples:
        return None

    def grown(name: str) -> float:
        return samples[-1].get(name, 0.0) - samples[0].get(name, 0.0)

    def mean_ms(name: str) -> float:
        count = grown(f"{name}_count")
        return round(1000 * grown(f"{name}_sum") / count, 2) if count > 0 else 0.0

    return EngineSeen(
        kv_cache=round(max(each.get(_CACHE, 0.0) for each in samples), 6),
        running=round(fmean(each.get(_RUNNING, 0.0) for each in samples), 2),
        waiting=round(fmean(each.get(_WAITING, 0.0) for each in samples), 2),
        preemptions=max(0, round(grown(_PREEMPTIONS))),
        ttft_ms=mean_ms(_TTFT),
        tpot_ms=mean_ms(_TPOT),
    )
