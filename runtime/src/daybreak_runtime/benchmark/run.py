"""Run of a benchmark: the search chooses settings, engines start, and loads are measured."""

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
"""Function that starts an engine with these settings. Raises EngineFailed."""
Measure = Callable[[Target, Level, Settings], Step]
log = logging.getLogger("daybreak.benchmark")


@dataclass
class Course:
    """State of a benchmark."""

    trials: list[Trial] = field(default_factory=list)
    now: str = ""
    """Current activity."""
    stopped: str = ""
    """Reason why the benchmark has ended."""

    @property
    def steps(self) -> list[Step]:
        """All steps, in order."""
        return [step for trial in self.trials for step in trial.steps]

    @property
    def best(self) -> Step | None:
        """Best step that keeps the limits, or None."""
        found = [step for trial in self.trials if (step := trial.best) is not None]
        return max(found, key=lambda step: step.value, default=None)

    @property
    def baseline(self) -> Step | None:
        """Best step without settings, or None."""
        return next((trial.best for trial in self.trials if not trial.settings), None)


@dataclass(frozen=True)
class Gain:
    """Comparison of the best step with the baseline."""

    ratio: float
    noise: float
    """Maximum ratio above 1 that could be noise, minus 1."""

    @property
    def significant(self) -> bool:
        """True if the best step is better beyond noise."""
        return self.ratio - 1 > self.noise


class Run:
    """Single benchmark.

    Args:
        order: Order of the benchmark.
        start: Function that starts engines, or returns the service.
        notify: Callback for changes.
        put: Function that applies one load to a target and measures.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        order: Order,
        start: Start,
        notify: Callable[[Course], None] = lambda _: None,
        put: Measure | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order = order
        self._start = start
        self._notify = notify
        self._put = put or (
            lambda target, level, settings: measure(target, order.load, level, order.objective, settings)
        )
        self._clock = clock
        self._began = clock()
        self.course = Course()

    @property
    def noise(self) -> Noise:
        """Noise of the steps so far."""
        stop = self._order.stop
        return noise(self.course.steps, stop.noise_factor, stop.min_noise)

    @property
    def gain(self) -> Gain | None:
        """Comparison of the best step with the baseline, or None if either is missing."""
        best, baseline = self.course.best, self.course.baseline
        if best is None or baseline is None or not baseline.value:
            return None
        return Gain(best.value / baseline.value, self.noise.of(best, baseline) / baseline.value)

    def run(self) -> Course:
        """Run the benchmark. Raises JobProblem if nothing was measured."""
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
                self._notify(self.course)
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
        self._write(f"{words}: the engine starts")
        steps: list[Step] = []
        failure = ""
        try:
            with self._start(settings) as target:
                ready = self._clock()
                for level in levels(self._order.load):
                    self._write(f"{words}: {level}")
                    steps.append(self._put(target, level, settings))
                    log.info("%s, %s: %s", words, level, steps[-1])
                    if self._enough(steps):
                        break
        except (EngineFailed, LoadFailed) as error:
            failure = str(error)
            log.error("%s: %s", words, failure)
        return Trial(dict(settings), tuple(steps), failure, ready - began, self._clock() - began)

    def _enough(self, steps: Sequence[Step]) -> bool:
        """Return True if a higher load would only be worse; without a sweep every load is measured."""
        if not self._order.sweep:
            return False
        good = [step for step in steps if not step.exceeds]
        best = max(good, key=lambda step: step.value, default=None)
        return best is not None and (bool(steps[-1].exceeds) or self.noise.better(best, steps[-1]))

    def _over_budget(self) -> str:
        """Return why the budget allows no further start, or nothing if it does.

        The cost of a start is estimated from previous ones.
        """
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
        """Raise JobProblem if no step is a measurement."""
        if not any(step.requests for step in self.course.steps):
            failures = [trial.failure for trial in self.course.trials if trial.failure]
            if failures:
                raise JobProblem(ENGINE_FAILED, f"no engine could be measured: {failures[0]}")
            errors = [step.first_error for step in self.course.steps if step.first_error]
            raise JobProblem(NO_ANSWER, f"no request was answered: {(errors or ['none ended in time'])[0]}")

    def _write(self, now: str) -> None:
        self.course.now = now
        self._notify(self.course)
