"""Which settings to try next: pure, knowing nothing of engines and load.

Each argument has a ladder of values. The search goes up it in jumps of two rungs while that is better beyond
noise, and stops when `patience` jumps in a row were not; then it tries the rungs beside the best that it has
jumped over. With several arguments it holds the others at the best so far (coordinate descent), and goes
round until a whole round brings nothing.

An engine's start costs more than all loads on it, so no setting is tried twice.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Settings, Step, Trial

Better = Callable[[Step, Step], bool]
"""Whether the first step is better than the second, beyond noise."""
Search = Generator[Settings, Trial, str]
"""Yields settings, is sent what came of them, and returns why it ended."""
_UNSET = object()
_STRIDE = 2
_ROUNDS = 3


@dataclass
class _State:
    better: Better
    patience: int
    given: Mapping[str, Any]
    tried: dict[str, Trial] = field(default_factory=dict)
    best: Settings = field(default_factory=dict)

    def step(self, settings: Settings) -> Step | None:
        """The best step with these settings; None: they do not work, or were not tried."""
        trial = self.tried.get(key(settings))
        return trial.best if trial is not None else None

    def beats(self, settings: Settings, other: Settings) -> bool:
        """Whether these settings are better than others, beyond noise."""
        one, two = self.step(settings), self.step(other)
        if one is None:
            return False
        return two is None or self.better(one, two)

    def keep(self, settings: Settings) -> None:
        """Remember the settings with the highest value."""
        one, best = self.step(settings), self.step(self.best)
        if one is not None and (best is None or one.value > best.value):
            self.best = settings


def key(settings: Settings) -> str:
    """The same text for the same settings."""
    return repr(sorted(settings.items()))


def search(sweep: Sequence[Dimension], patience: int, better: Better, given: Mapping[str, Any]) -> Search:
    """Search the best settings, from the baseline (no settings) on. Ends by itself.

    Args:
        sweep: The arguments and their ladders.
        patience: After how many jumps in a row that bring nothing a ladder is left.
        better: Compares steps, with the noise that is known by then.
        given: The baseline's arguments: a rung that says the same is the baseline.
    """
    state = _State(better, max(1, patience), given)
    yield from _try(state, {})
    if not sweep:
        return "there is nothing to sweep over"
    words = ""
    for _ in range(_ROUNDS if len(sweep) > 1 else 1):
        before = state.best
        for dimension in sweep:
            words = yield from _climb(state, dimension)
        if not state.beats(state.best, before):
            break
    return words


def _climb(state: _State, dimension: Dimension) -> Generator[Settings, Trial, str]:
    """Go up the ladder of one argument, the others as in the best so far."""
    base = dict(state.best)

    def at(rung: int) -> Settings:
        found = {**base, dimension.name: dimension.values[rung]}
        return {name: value for name, value in found.items() if state.given.get(name, _UNSET) != value}

    last = len(dimension.values) - 1
    rung, peak, behind = 0, -1, 0
    words = f"{dimension.name}: its last value was tried"
    while True:
        yield from _try(state, at(rung))
        before = peak
        if peak < 0 or state.beats(at(rung), at(peak)):
            behind = 0
        else:
            behind += 1
        if peak < 0 or _value(state, at(rung)) > _value(state, at(peak)):
            peak = rung
        if behind >= state.patience and state.step(at(peak)) is not None:
            words = _stopped(state, dimension, at, rung, before)
            break
        if rung == last:
            break
        rung = min(rung + _STRIDE, last)
    for beside in (peak - 1, peak + 1):
        if 0 <= beside <= last:
            yield from _try(state, at(beside))
    return words


def _try(state: _State, settings: Settings) -> Generator[Settings, Trial, None]:
    if key(settings) not in state.tried:
        state.tried[key(settings)] = yield settings
    state.keep(settings)


def _value(state: _State, settings: Settings) -> float:
    step = state.step(settings)
    return step.value if step is not None else float("-inf")


def _stopped(state: _State, dimension: Dimension, at: Callable[[int], Settings], rung: int, peak: int) -> str:
    value, best = dimension.values[rung], dimension.values[peak]
    trial = state.tried[key(at(rung))]
    if trial.best is None:
        why = "does not start" if trial.failure else "keeps the limits with no load"
        return f"{dimension.name}: {value} {why}"
    if state.beats(at(peak), at(rung)):
        return f"{dimension.name}: {value} is worse than {best}, beyond noise"
    return f"{dimension.name}: {value} is no better than {best}, beyond noise"
