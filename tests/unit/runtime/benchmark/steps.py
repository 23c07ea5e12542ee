"""Steps with a value, as if measured."""

from daybreak_runtime.benchmark.outcome import Latency, Settings, Step, Trial


def step(settings: Settings, value: float, spread: float = 0.01, exceeds: str = "") -> Step:
    """Return a step of three windows around a value, in requests/s."""
    windows = (value * (1 - spread), value, value * (1 + spread))
    return Step(
        settings=settings,
        clients=8,
        rate=None,
        requests_per_second=value,
        tokens_per_second=10 * value,
        requests=100,
        errors=0,
        ttft_ms=Latency(1, 2, 3),
        tpot_ms=Latency(1, 2, 3),
        latency_ms=Latency(1, 2, 3),
        windows=windows,
        exceeds=exceeds,
    )


def trial(settings: Settings, value: float | None, spread: float = 0.01) -> Trial:
    """Return one start with one step; None: the engine does not start."""
    if value is None:
        return Trial(settings, failure="out of memory", seconds=10)
    return Trial(settings, (step(settings, value, spread),), start_seconds=5, seconds=10)
