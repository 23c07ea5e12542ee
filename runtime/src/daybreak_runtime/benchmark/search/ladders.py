"""Search for the next settings: pure, without knowledge of engines and load.

Each argument has a ladder of values. The search climbs it in jumps of two rungs while that is better beyond
noise, and stops when `patience` consecutive jumps were not; then it tries the skipped rungs next to the best.
With two arguments it fixes the other at the best so far (coordinate descent), and repeats until a whole round
brings nothing. With more arguments, `joint` chooses all of them at once.

An engine's start costs more than all loads on it, so no setting is tried twice.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Settings, Trial
from daybreak_runtime.benchmark.search.joint import LEAST_DIMENSIONS, joint
from daybreak_runtime.benchmark.search.tried import Better, Tried, key

Search = Generator[Settings, Trial, str]
"""Generator that yields settings, receives their trials, and returns why it ended."""
_STRIDE = 2
_ROUNDS = 3


def search(
    sweep: Sequence[Dimension], patience: int, better: Better, given: Mapping[str, Any], seed: int = 0
) -> Search:
    """Search the best settings, from the baseline (no settings) on. Ends by itself.

    Args:
        sweep: Arguments and their ladders.
        patience: Consecutive jumps without gain after which a ladder ends.
        better: Function that compares steps, with the noise known so far.
        given: Arguments of the baseline: a rung with an equal value is the baseline.
        seed: Seed of random choices, with many arguments.
    """
    tried, patience = Tried(better, given), max(1, patience)
    yield from tried.attempt({})
    if not sweep:
        return "there is nothing to sweep over"
    if len(sweep) >= LEAST_DIMENSIONS:
        return (yield from joint(sweep, tried, patience, seed))
    words = ""
    for _ in range(_ROUNDS if len(sweep) > 1 else 1):
        before = tried.best
        for dimension in sweep:
            words = yield from _climb(tried, dimension, patience)
        if not tried.beats(tried.best, before):
            break
    return words


def _climb(tried: Tried, dimension: Dimension, patience: int) -> Search:
    """Climb the ladder of one argument, with the others as in the best so far."""
    base = dict(tried.best)

    def at(rung: int) -> Settings:
        return tried.different({**base, dimension.name: dimension.values[rung]})

    last = len(dimension.values) - 1
    rung, peak, behind = 0, -1, 0
    words = f"{dimension.name}: its last value was tried"
    while True:
        yield from tried.attempt(at(rung))
        before = peak
        if peak < 0 or tried.beats(at(rung), at(peak)):
            behind = 0
        else:
            behind += 1
        if peak < 0 or tried.value(at(rung)) > tried.value(at(peak)):
            peak = rung
        if behind >= patience and tried.step(at(peak)) is not None:
            words = _stopped(tried, dimension, at, rung, before)
            break
        if rung == last:
            break
        rung = min(rung + _STRIDE, last)
    for beside in (peak - 1, peak + 1):
        if 0 <= beside <= last:
            yield from tried.attempt(at(beside))
    return words


def _stopped(tried: Tried, dimension: Dimension, at: Callable[[int], Settings], rung: int, peak: int) -> str:
    value, best = dimension.values[rung], dimension.values[peak]
    trial = tried.trials[key(at(rung))]
    if trial.best is None:
        why = "does not start" if trial.failure else "keeps the limits with no load"
        return f"{dimension.name}: {value} {why}"
    if tried.beats(at(peak), at(rung)):
        return f"{dimension.name}: {value} is worse than {best}, beyond noise"
    return f"{dimension.name}: {value} is no better than {best}, beyond noise"
