"""Trials of a search, and the best of them. Pure."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from daybreak_runtime.benchmark.outcome import Settings, Step, Trial

Better = Callable[[Step, Step], bool]
"""Function that returns True if the first step is better than the second, beyond noise."""
_UNSET = object()


def key(settings: Settings) -> str:
    """Return a text that is equal for equal settings."""
    return repr(sorted(settings.items()))


@dataclass
class Tried:
    """Trials of all settings."""

    better: Better
    given: Mapping[str, Any]
    """Arguments of the baseline: settings with equal values are the baseline."""
    trials: dict[str, Trial] = field(default_factory=dict)
    best: Settings = field(default_factory=dict)

    def different(self, found: Settings) -> Settings:
        """Return the settings that differ from the baseline."""
        return {name: value for name, value in found.items() if self.given.get(name, _UNSET) != value}

    def step(self, settings: Settings) -> Step | None:
        """Return the best step with these settings, or None if they failed or were not tried."""
        trial = self.trials.get(key(settings))
        return trial.best if trial is not None else None

    def value(self, settings: Settings) -> float:
        """Return the objective with these settings, or negative infinity if there is none."""
        step = self.step(settings)
        return step.value if step is not None else float("-inf")

    def beats(self, settings: Settings, other: Settings) -> bool:
        """Return True if these settings are better than others, beyond noise."""
        one, two = self.step(settings), self.step(other)
        if one is None:
            return False
        return two is None or self.better(one, two)

    def attempt(self, settings: Settings) -> Generator[Settings, Trial, None]:
        """Yield settings if they were not tried, and update the best ones."""
        if key(settings) not in self.trials:
            self.trials[key(settings)] = yield settings
        if self.value(settings) > self.value(self.best):
            self.best = settings
