"""What a search has tried, and the best of it. Pure."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from daybreak_runtime.benchmark.outcome import Settings, Step, Trial

Better = Callable[[Step, Step], bool]
"""Whether the first step is better than the second, beyond noise."""
_UNSET = object()


def key(settings: Settings) -> str:
    """The same text for the same settings."""
    return repr(sorted(settings.items()))


@dataclass
class Tried:
    """What came of each setting."""

    better: Better
    given: Mapping[str, Any]
    """The baseline's arguments: settings that say the same are the baseline."""
    trials: dict[str, Trial] = field(default_factory=dict)
    best: Settings = field(default_factory=dict)

    def different(self, found: Settings) -> Settings:
        """Of settings, what differs from the baseline."""
        return {name: value for name, value in found.items() if self.given.get(name, _UNSET) != value}

    def step(self, settings: Settings) -> Step | None:
        """The best step with these settings; None: they do not work, or were not tried."""
        trial = self.trials.get(key(settings))
        return trial.best if trial is not None else None

    def value(self, settings: Settings) -> float:
        """The objective with these settings; less than anything where there is none."""
        step = self.step(settings)
        return step.value if step is not None else float("-inf")

    def beats(self, settings: Settings, other: Settings) -> bool:
        """Whether these settings are better than others, beyond noise."""
        one, two = self.step(settings), self.step(other)
        if one is None:
            return False
        return two is None or self.better(one, two)

    def attempt(self, settings: Settings) -> Generator[Settings, Trial, None]:
        """Ask for settings that were not tried, and remember those with the highest value."""
        if key(settings) not in self.trials:
            self.trials[key(settings)] = yield settings
        if self.value(settings) > self.value(self.best):
            self.best = settings
