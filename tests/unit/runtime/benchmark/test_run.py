"""A whole benchmark without engines: search, measurement, stop, progress, and report."""

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak_runtime.benchmark.__main__ import save
from daybreak_runtime.benchmark.engines import EngineFailed
from daybreak_runtime.benchmark.load.measure import Level, LoadFailed, Target, levels
from daybreak_runtime.benchmark.order import Order
from daybreak_runtime.benchmark.outcome import Settings, Step
from daybreak_runtime.benchmark.progress import plain
from daybreak_runtime.benchmark.report.files import files
from daybreak_runtime.benchmark.report.page import table
from daybreak_runtime.benchmark.run import Course, Run
from daybreak_runtime.jobs.problem import JobProblem
from tests.unit.runtime.benchmark.steps import step

SWEEP = [{"name": "max_num_seqs", "values": [1, 2, 4, 8, 16]}]


def order(**more: Any) -> Order:
    load = {"clients": [2, 8], **more.pop("load", {})}
    return Order.read({"engine": {"source": "m", "model": "m"}, "load": load, **more})


class Machine:
    """Simulated machine: engines that answer `slots` requests/s, limited by the number of clients."""

    def __init__(self, fails: tuple[int, ...] = (), load_fails: bool = False) -> None:
        self.fails, self.load_fails = fails, load_fails
        self.started: list[Settings] = []
        self.running = 0
        self.now = 0.0

    @contextlib.contextmanager
    def start(self, settings: Settings) -> Iterator[Target]:
        assert not self.running, "one engine at a time"
        self.now += 50
        self.started.append(settings)
        if settings.get("max_num_seqs") in self.fails:
            raise EngineFailed("CUDA out of memory")
        self.running += 1
        try:
            yield Target("http://127.0.0.1:1/v1", "m")
        finally:
            self.running -= 1

    def put(self, target: Target, level: Level, settings: Settings) -> Step:
        self.now += 10
        if self.load_fails:
            raise LoadFailed("a process of the load failed")
        slots = settings.get("max_num_seqs", 2)
        value = float(min(slots, level.clients or 1)) - 0.01 * slots
        found = step(settings, value)
        return Step(**{**found.__dict__, "clients": level.clients})


def run(desired: Order, machine: Machine, reported: list[str] | None = None) -> Run:
    def notify(course: Course) -> None:
        if reported is not None:
            reported.append(course.now)

    one = Run(desired, machine.start, notify, machine.put, lambda: machine.now)
    one.run()
    return one


def test_all_load_levels_run_on_one_engine_start() -> None:
    machine = Machine()
    reported: list[str] = []
    found = run(order(), machine, reported)
    assert machine.started == [{}]
    assert [each.clients for each in found.course.steps] == [2, 8]
    assert reported[0] == "the baseline: the engine starts"
    assert "the baseline: 8 clients" in reported


def test_sweep_ends_with_best_measured_step_and_its_gain() -> None:
    machine = Machine()
    found = run(order(sweep=SWEEP), machine)
    best = found.course.best
    assert best is not None
    assert best.settings == {"max_num_seqs": 8}
    assert best.value == max(each.value for each in found.course.steps)
    assert found.gain is not None
    assert found.gain.significant
    assert 3 < found.gain.ratio < 5
    assert found.course.stopped


def test_higher_loads_are_skipped_after_a_worse_result() -> None:
    machine = Machine()
    desired = order(sweep=SWEEP, load={"clients": [1, 2, 4, 8]}, objective={"maximize": "RequestsPerSecond"})
    machine.put = lambda target, level, settings: Step(  # type: ignore[method-assign]
        **{**step(settings, 10.0 / (level.clients or 1)).__dict__, "clients": level.clients}
    )
    found = run(desired, machine)
    assert [each.clients for each in found.course.trials[0].steps] == [1, 2]


def test_engine_that_does_not_start_is_reported_as_failed_step() -> None:
    found = run(order(sweep=SWEEP), Machine(fails=(16,)))
    failed = [each for each in found.course.trials if each.failure]
    assert [each.settings for each in failed] == [{"max_num_seqs": 16}]
    message = plain(found.course, found.gain, 0.0)
    assert {"settings": {"max_num_seqs": 16}, "failure": "CUDA out of memory"} in message["steps"]


def test_benchmark_fails_if_no_step_can_be_measured() -> None:
    machine = Machine()
    machine.start = _never  # type: ignore[method-assign]
    with pytest.raises(JobProblem, match="no such argument") as found:
        run(order(sweep=SWEEP), machine)
    assert found.value.reason == "EngineFailed"
    with pytest.raises(JobProblem, match="a process of the load failed"):
        run(order(), Machine(load_fails=True))


@contextlib.contextmanager
def _never(settings: Settings) -> Iterator[Target]:
    raise EngineFailed("no such argument")
    yield


@pytest.mark.parametrize(
    ("budget", "starts", "words"),
    [
        ({"engine_starts": 2}, 2, "budget.engineStarts"),
        ({"seconds": 150}, 2, "budget.time"),
        ({"gpu_seconds": 450}, 3, "budget.acceleratorSeconds"),
    ],
)
def test_budget_ends_benchmark_before_a_step_would_exceed_the_budget(
    budget: dict[str, Any], starts: int, words: str
) -> None:
    engine = {"source": "m", "model": "m", "gpus": 2}
    machine = Machine()
    found = run(order(sweep=SWEEP, budget=budget, engine=engine), machine)
    assert len(machine.started) == starts
    assert words in found.course.stopped
    assert machine.now <= budget.get("seconds", 1e9)
    assert found.course.best is not None


def test_report_is_self_contained_and_shows_the_results(tmp_path: Path) -> None:
    desired = order(sweep=SWEEP, output=f"file://{tmp_path}/report")
    found = run(desired, Machine(fails=(16,)))
    save(desired, files(desired, found))
    page = (tmp_path / "report" / "report.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "max_num_seqs=8" in page
    picture = ElementTree.fromstring((tmp_path / "report" / "curve.svg").read_text())  # noqa: S314 -- our own
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}circle")) == len(found.course.steps)
    kept = json.loads((tmp_path / "report" / "results.json").read_text())
    assert kept["best"]["settings"] == {"max_num_seqs": 8}
    assert kept["gain"]["significant"] is True
    assert "times the baseline, beyond noise" in table(kept)


def test_load_levels_are_sorted_and_deduplicated() -> None:
    assert [each.clients for each in levels(order(load={"clients": [8, 1, 8, 4]}).load)] == [1, 4, 8]
    rates = order(load={"clients": [], "rates": [4.5, 2]}).load
    assert [str(each) for each in levels(rates)] == ["2 requests/s", "4.5 requests/s"]


@pytest.mark.parametrize(
    ("plain_order", "words"),
    [
        ({"load": {"clients": [1]}}, "either an engine or a service"),
        ({"engine": {"source": "m", "model": "m"}, "load": {}}, "either clients or rates"),
        ({"service": {"url": "u", "model": "m"}, "load": {"clients": [1]}, "sweep": SWEEP}, "a sweep needs"),
        ({"engine": {"source": "m", "model": "m", "colour": 1}, "load": {"clients": [1]}}, "no field colour"),
    ],
)
def test_invalid_order_is_rejected(plain_order: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Order.read(plain_order)
