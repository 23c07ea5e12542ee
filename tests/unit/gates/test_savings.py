"""What sleep saves is counted while it lasts; a wake is counted when it has ended."""

from typing import Any

from daybreak.controller import metrics
from daybreak.gates.savings import SAVED, Savings, count_wakes
from daybreak.kube.cache import Key
from daybreak.scheduling.replica_size import accelerators_awake
from tests.unit.clock import Clock
from tests.unit.llmservice.decide.scenes import CPU_MODEL, GPU_MODEL, Manifest, service


def status(**wake: Any) -> Any:
    """A status with the last wake of one model."""
    return {"gate": {"models": [{"name": "m", "wake": {"depth": "Workers", **wake}}]}}


WAKING = status()
AWAKE = status(seconds=42)
ONE, OTHER = Key("ns", "one"), Key("ns", "other")


def told(savings: Savings) -> dict[str, float]:
    """What Prometheus would read, by service."""
    [family] = savings.collect()
    return {sample.labels["service"]: sample.value for sample in family.samples}


def test_it_grows_while_the_service_sleeps() -> None:
    savings = Savings(clock := Clock())
    savings.see(ONE, 2)
    clock.now += 10
    assert told(savings) == {"one": 20}
    savings.see(ONE, 2)
    clock.now += 3590
    assert told(savings) == {"one": 7200}


def test_nothing_is_added_awake_or_when_the_service_has_gone() -> None:
    savings = Savings(clock := Clock())
    savings.see(ONE, 0)
    assert told(savings) == {}
    savings.see(ONE, 2)
    savings.see(OTHER, 1)
    clock.now += 10
    savings.see(ONE, 0)
    clock.now += 990
    assert told(savings) == {"one": 20, "other": 1000}
    savings.see(ONE, 3)
    clock.now += 1
    assert told(savings) == {"one": 23, "other": 1001}


def held(model: Manifest, **spec: Any) -> int:
    """Accelerators of a model that is awake."""
    found = service(model, **spec)
    return accelerators_awake(found.workload, found.spec.models[0])


def test_what_a_sleeping_model_saves() -> None:
    assert held({**GPU_MODEL, "replicas": {"min": 2}}) == 2
    assert held({**GPU_MODEL, "replicas": {"min": 0}}) == 1
    assert held(CPU_MODEL) == 0, "a CPU is no accelerator"


def test_it_is_told_with_the_other_metrics() -> None:
    assert [family.name for family in SAVED.collect()] == ["daybreak_gpu_seconds_saved"]


def counted(name: str, before: Any, after: Any) -> float:
    """How many wakes of that service are counted after these two statuses."""
    count_wakes(Key("ns", name), before, after)
    return float(metrics.WAKES.labels("ns", name, "m", "Workers")._value.get())


def test_a_wake_is_counted_when_it_has_ended() -> None:
    assert counted("six", WAKING, AWAKE) == 1
    for before, after in ((AWAKE, AWAKE), (WAKING, WAKING), (AWAKE, WAKING)):
        assert counted("six", before, after) == 1
    assert counted("six", WAKING, AWAKE) == 2


def test_how_long_a_wake_took_that_had_failed_is_no_measure() -> None:
    failed = status(seconds=18_000, failed=True, phases={"firstToken": 18_000})
    sums = [metrics.WAKE_SECONDS.labels("Workers"), metrics.WAKE_STEP_SECONDS.labels("Workers", "firstToken")]
    before = [each._sum.get() for each in sums]
    assert counted("eight", status(failed=True), failed) == 1
    assert [each._sum.get() for each in sums] == before


def test_each_step_is_counted_with_the_wake() -> None:
    phases = {"headReady": 0, "workerReady": 30, "firstToken": 42}
    deep = status(depth="Cluster", seconds=42, phases=phases)
    counted("seven", status(depth="Cluster", phases={"headReady": 0}), deep)
    steps = metrics.WAKE_STEP_SECONDS
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30
    assert steps.labels("Cluster", "firstToken")._sum.get() == 42
    counted("seven", deep, deep)
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30, "once"


def test_a_fixed_number_of_replicas_counts_for_every_model() -> None:
    assert held(GPU_MODEL, replicas=3) == 3
    assert held(GPU_MODEL, replicas=0) == 1, "one is made for a request"
