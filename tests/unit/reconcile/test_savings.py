"""What sleep has saved is counted once, when a status says for the first time that it is over."""

from datetime import UTC, datetime
from typing import Any

from daybreak.kube.cache import Key
from daybreak.reconcile import metrics, savings
from tests.unit.lifecycle.scenes import CPU_MODEL, GPU_MODEL, service

NOW = datetime(2026, 11, 21, 13, 0, tzinfo=UTC)
SLEPT = {"asleep": "Workers", "phaseSince": "2026-11-21T12:00:00Z"}
WAKING = {"wake": {"depth": "Workers"}}
AWAKE = {"wake": {"depth": "Workers", "seconds": 42}}


def saved(name: str, before: Any, after: Any, model: Any = GPU_MODEL, replicas: int = 2) -> float:
    """What is counted for a service that holds two accelerators awake."""
    svc = service({**model, "replicas": {"min": replicas}})
    savings.count(Key("ns", name), svc, before, after, NOW)
    return float(metrics.SAVED.labels("ns", name)._value.get())


def test_an_hour_of_two_accelerators() -> None:
    assert saved("one", SLEPT, WAKING) == 2 * 3600
    assert saved("one", WAKING, WAKING) == 2 * 3600, "once"


def test_nothing_while_it_sleeps_on_or_falls_asleep() -> None:
    assert saved("two", SLEPT, {**SLEPT, "asleep": "Cluster"}) == 0
    assert saved("two", {}, SLEPT) == 0
    assert saved("two", {}, {}) == 0


def test_at_zero_replicas_it_would_hold_one_when_asked_and_a_cpu_is_no_accelerator() -> None:
    assert saved("three", SLEPT, WAKING, replicas=0) == 3600
    assert saved("four", SLEPT, WAKING, model=CPU_MODEL) == 0


def test_a_clock_that_went_back_takes_nothing_away() -> None:
    assert saved("five", {**SLEPT, "phaseSince": "2026-11-21T14:00:00Z"}, WAKING) == 0
    assert saved("five", {"asleep": "Workers"}, WAKING) == 0


def test_a_wake_is_counted_when_it_has_ended() -> None:
    counter = metrics.WAKES.labels("ns", "six", "Workers")
    assert saved("six", WAKING, AWAKE) == 0
    assert counter._value.get() == 1
    saved("six", AWAKE, AWAKE)
    saved("six", WAKING, WAKING)
    assert counter._value.get() == 1
    saved("six", AWAKE, WAKING)
    saved("six", WAKING, AWAKE)
    assert counter._value.get() == 2


def test_each_step_is_counted_with_the_wake() -> None:
    phases = {"headReady": 0, "workerReady": 30, "firstToken": 42}
    deep = {"wake": {"depth": "Cluster", "seconds": 42, "phases": phases}}
    saved("seven", {"wake": {"depth": "Cluster", "phases": {"headReady": 0}}}, deep)
    steps = metrics.WAKE_STEP_SECONDS
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30
    assert steps.labels("Cluster", "firstToken")._sum.get() == 42
    saved("seven", deep, deep)
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30, "once"
