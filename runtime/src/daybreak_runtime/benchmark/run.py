"""A benchmark from its first engine to its last word: the search asks, engines start, loads are measured."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import fmean

from daybreak_runtime.benchmark.engines import EngineFailed
from daybreak_runtime.benchmark.load.awake import NO_ANSWER
from daybreak_runtime.benchmark.load.measure import Level, LoadFailed, Target, levels, measure
from daybreak_runtime.benchmark.order import Order
from daybreak_runtime.benchmark.outcome import Noise, Settings, Step, Trial, noise
from daybreak_runtime.benchmark.search.ladders import search
from daybreak_runtime.jobs.problem import JobProblem

ENGINE_FAILED = "EngineFailed"
Start = Callable[[Settings], AbstractContextManager[Target]]
"""Starts an engine with these settings. Raises EngineFailed."""
Measure = Callable[[Target, Level, Settings], Step]
log = logging.getLogger("daybreak.benchmark")


@dataclass
class Course:
    """How far a benchmark is."""

    trials: list[Trial] = field(default_factory=list)
    now: str = ""
    """What is done at this moment."""
    stopped: str = ""
    """Why it has ended."""

    @property
    def steps(self) -> list[Step]:
        """Every step, in order."""
        return [step for trial in self.trials for step in trial.steps]

    @property
    def best(self) -> Step | None:
        """The best step that keeps the limits."""
        found = [step for trial in self.trials if (step := trial.best) is not None]
        return max(found, key=lambda step: step.value, default=None)

    @property
    def baseline(self) -> Step | None:
        """The best step with no settings."""
        return next((trial.best for trial in self.trials if not trial.settings), None)


@dataclass(frozen=True)
class Gain:
    """The best beside the baseline."""

    ratio: float
    noise: float
    """The largest ratio, above 1, that could be noise."""

    @property
    def significant(self) -> bool:
        """Whether the best is better beyond noise."""
        return self.ratio - 1 > self.noise


class Run:
    """One benchmark.

    Args:
        order: What is asked for.
        start: Starts engines, or hands on the service.
        tell: Called when there is something new.
        put: Puts one load on a target and measures.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        order: Order,
        start: Start,
        tell: Callable[[Course], None] = lambda _: None,
        put: Measure | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order = order
        self._start = start
        self._tell = tell
        self._put = put or (
            lambda target, level, settings: measure(target, order.load, level, order.objective, settings)
        )
        self._clock = clock
        self._began = clock()
        self.course = Course()

    @property
    def noise(self) -> Noise:
        """The noise, as far as it is known."""
        stop = self._order.stop
        return noise(self.course.steps, stop.noise_factor, stop.min_noise)

    @property
    def gain(self) -> Gain | None:
        """The best beside the baseline; None where either is missing."""
        best, baseline = self.course.best, self.course.baseline
        if best is None or baseline is None or not baseline.value:
            return None
        return Gain(best.value / baseline.value, self.noise.of(best, baseline) / baseline.value)

    def run(self) -> Course:
        """All of it. Raises JobProblem when nothing comes of it."""
        order = self._order
        given = order.engine.args if order.engine is not None else {}
        plan = search(
            order.sweep,
            order.stop.patience,
            lambda one, other: self.noise.better(one, other),
            given,
            order.load.seed,
        )
        settings = next(plan)
        with contextlib.suppress(StopIteration):
            while True:
                over = self._over_budget()
                if over:
                    self.course.stopped = over
                    break
                trial = self._trial(settings)
                self.course.trials.append(trial)
                self._tell(self.course)
                try:
                    settings = plan.send(trial)
                except StopIteration as end:
                    self.course.stopped = str(end.value)
                    raise
        self.course.now = ""
        self._check()
        return self.course

    def _trial(self, settings: Settings) -> Trial:
        words = ", ".join(f"{name} {value}" for name, value in settings.items()) or "the baseline"
        began = ready = self._clock()
        self._say(f"{words}: the engine starts")
        steps: list[Step] = []
        failure = ""
        try:
            with self._start(settings) as target:
                ready = self._clock()
                for level in levels(self._order.load):
                    self._say(f"{words}: {level}")
                    steps.append(self._put(target, level, settings))
                    log.info("%s, %s: %s", words, level, steps[-1])
                    if self._enough(steps):
                        break
        except (EngineFailed, LoadFailed) as error:
            failure = str(error)
            log.error("%s: %s", words, failure)
        return Trial(dict(settings), tuple(steps), failure, ready - began, self._clock() - began)

    def _enough(self, steps: Sequence[Step]) -> bool:
        """Whether a higher load would only be worse; without a sweep every load is wanted."""
        if not self._order.sweep:
            return False
        good = [step for step in steps if not step.exceeds]
        best = max(good, key=lambda step: step.value, default=None)
        return best is not None and (bool(steps[-1].exceeds) or self.noise.better(best, steps[-1]))

    def _over_budget(self) -> str:
        """Why there is no budget for one more start, reckoned from those before; empty: there is."""
        budget, trials = self._order.budget, self.course.trials
        if not trials:
            return ""
        if budget.engine_starts is not None and len(trials) >= budget.engine_starts:
            return f"budget.engineStarts: {len(trials)} engines were started"
        one, spent = fmean(trial.seconds for trial in trials), self._clock() - self._began
        if budget.seconds is not None and spent + one > budget.seconds:
            return f"budget.time: {spent:.0f} s are spent, and one more step takes about {one:.0f} s"
        gpus = self._order.engine.gpus if self._order.engine is not None else 0
        if budget.gpu_seconds is not None and gpus * (spent + one) > budget.gpu_seconds:
            used, step = f"{gpus * spent:.0f}", f"{gpus * one:.0f}"
            return f"budget.acceleratorSeconds: {used} are spent, and one more step takes {step}"
        return ""

    def _check(self) -> None:
        """Raises JobProblem where no step is a measurement."""
        if not any(step.requests for step in self.course.steps):
            failures = [trial.failure for trial in self.course.trials if trial.failure]
            if failures:
                raise JobProblem(ENGINE_FAILED, f"no engine could be measured: {failures[0]}")
            errors = [step.first_error for step in self.course.steps if step.first_error]
            raise JobProblem(NO_ANSWER, f"no request was answered: {(errors or ['none ended in time'])[0]}")

    def _say(self, now: str) -> None:
        self.course.now = now
        self._tell(self.course)
