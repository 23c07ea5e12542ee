"""Search over three or more arguments: Optuna chooses settings, and a local search around the best ends it.

The search is pure: the same seed and the same measurements give the same settings. One argument after another
(`search`) follows a ridge slowly, because the best value of one depends on the others. The tree-structured
Parzen estimator (TPE) chooses all at once, learns from few starts, and counts settings that do not start as
bad ones. It is poor at the last step, so that is made rung by rung.
"""

import logging
import math
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Settings, Trial
from daybreak_runtime.benchmark.search.tried import Tried, key

LEAST_DIMENSIONS = 3
"""Minimum number of arguments for this search."""
STARTUP = 8
"""Number of settings chosen at random, before the sampler can learn."""
WAITS = 6
"""Number of settings without improvement that count as one value of a ladder does for `stop.patience`."""
_REPEATS = 200
"""Maximum number of repeated settings from the sampler in total; each costs milliseconds and no engine."""
Rungs = tuple[int, ...]
"""Position on each argument's ladder."""


def joint(
    sweep: Sequence[Dimension], tried: Tried, patience: int, seed: int
) -> Generator[Settings, Trial, str]:
    """Search the best settings after the baseline. Yields settings, and returns why it ended."""
    space = _Space(sweep, tried)
    peak = yield from _sampled(space, patience, seed)
    return (yield from _beside(space, tried.best if space.rungs(tried.best) is not None else peak))


class _Space:
    """Space of the settings of a sweep."""

    def __init__(self, sweep: Sequence[Dimension], tried: Tried) -> None:
        self.sweep = sweep
        self.tried = tried
        self.size = math.prod(len(each.values) for each in sweep)

    def settings(self, rungs: Rungs) -> Settings:
        """Return the settings on these rungs."""
        pairs = zip(self.sweep, rungs, strict=True)
        return self.tried.different({each.name: each.values[rung] for each, rung in pairs})

    def rungs(self, settings: Settings) -> Rungs | None:
        """Return the rungs of settings, or None if a value is on no ladder, as a baseline's may be."""
        whole = {**self.tried.given, **settings}
        if any(each.name not in whole or whole[each.name] not in each.values for each in self.sweep):
            return None
        return tuple(each.values.index(whole[each.name]) for each in self.sweep)

    def beside(self, settings: Settings) -> Iterator[Settings]:
        """Yield the settings one rung up or down the ladder of one argument."""
        rungs = self.rungs(settings) or ()
        for place, here in enumerate(rungs):
            for rung in (here + 1, here - 1):
                if 0 <= rung < len(self.sweep[place].values):
                    yield self.settings((*rungs[:place], rung, *rungs[place + 1 :]))


def _sampled(space: _Space, patience: int, seed: int) -> Generator[Settings, Trial, Settings]:
    """Try the sampler's settings, and return the best of them."""
    import optuna

    logging.getLogger("optuna").setLevel(logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=False)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    tried = space.tried
    requested: set[str] = set()
    # Not the baseline: with a good baseline the sampler would end before it has learned anything.
    peak: Settings = {}
    behind = repeats = 0
    while behind < WAITS * patience and repeats < _REPEATS and len(requested) < space.size:
        trial = study.ask()
        settings = space.settings(_rungs(trial, space.sweep))
        repeats += key(settings) in requested
        new = key(settings) not in tried.trials
        yield from tried.attempt(settings)
        requested.add(key(settings))
        # Settings that do not start, or keep the limits with no load, get the worst value.
        study.tell(trial, max(0.0, tried.value(settings)))
        if new and len(requested) > STARTUP:
            behind = 0 if tried.beats(settings, peak) else behind + 1
        if len(requested) == 1 or tried.value(settings) > tried.value(peak):
            peak = settings
    return peak


def _rungs(trial: Any, sweep: Sequence[Dimension]) -> Rungs:
    return tuple(trial.suggest_int(each.name, 0, len(each.values) - 1) for each in sweep)


def _beside(space: _Space, peak: Settings) -> Generator[Settings, Trial, str]:
    """Move from a setting to better neighbors until there are none."""
    tried = space.tried
    if tried.step(peak) is None:
        return "no setting that was tried starts and keeps the limits"
    while True:
        here = peak
        for settings in space.beside(here):
            yield from tried.attempt(settings)
            if tried.value(settings) > tried.value(peak):
                peak = settings
            if tried.beats(settings, here):
                break  # continue from there
        if peak == here:
            return "no neighbor of the best is better"
