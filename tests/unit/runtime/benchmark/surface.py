"""A simulated engine: requests/s as a pure function of four arguments, with ridges and cliffs."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Settings
from daybreak_runtime.benchmark.search.tried import key

SWEEP = (
    Dimension("max_num_seqs", (4, 8, 16, 32, 64, 128, 256, 512)),
    Dimension("max_num_batched_tokens", (512, 1024, 2048, 4096, 8192, 16384)),
    Dimension("gpu_memory_utilization", (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)),
    Dimension("block_size", (16, 32, 64, 128)),
)
DEFAULTS: dict[str, float] = {
    "max_num_seqs": 64,
    "max_num_batched_tokens": 2048,
    "gpu_memory_utilization": 0.7,
    "block_size": 16,
}


def surface(seed: int) -> Callable[[Settings], float | None]:
    """One of many such engines; None: it does not start. The same settings measure the same."""
    dice = random.Random(seed)  # noqa: S311 -- a shape, not a secret
    half, prefill = dice.uniform(60, 300), dice.uniform(6, 30)
    long, memory = dice.uniform(10, 80), dice.uniform(60, 400)
    block, of_block = dice.choice((16, 32, 64, 128)), dice.uniform(0.02, 0.15)
    cliff = dice.choice((1.0, 0.9, 0.95))

    def measure(settings: Settings) -> float | None:
        given: dict[str, float] = {**DEFAULTS, **settings}
        slots, tokens = given["max_num_seqs"], given["max_num_batched_tokens"]
        share = given["gpu_memory_utilization"]
        if share >= cliff and tokens >= 8192:
            return None
        fits = max(1.0, memory * (share - 0.35) - tokens / 600)
        running = min(slots, fits)
        value = 100 * running / (running + half)
        value *= max(0.4, 1 - 0.12 * math.log2(max(1.0, slots / fits)))  # preemptions
        value /= 1 + prefill * running / tokens
        value /= 1 + tokens / (long * 1024)
        value *= 1 - of_block * abs(math.log2(given["block_size"] / block))
        noise = random.Random(f"{seed} {key(settings)}")  # noqa: S311
        return value * math.exp(noise.gauss(0, 0.01))

    return measure


def every(sweep: Sequence[Dimension]) -> list[Settings]:
    """Return all settings of a sweep."""
    names = [each.name for each in sweep]
    values = itertools.product(*(each.values for each in sweep))
    return [dict(zip(names, each, strict=True)) for each in values]
