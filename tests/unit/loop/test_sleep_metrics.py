"""The savings of sleep are counted while it lasts; a wake is counted after its end."""

from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.gates.gate_status import GateStatus, ModelGate
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.controller import metrics
from daybreak.gates.ledger import Accelerators, count, savings_before
from daybreak.loop.sleep_metrics import SAVINGS, ExpectedWaits, IdleTimes, Savings, count_wakes, count_yields
from daybreak.manifests.keys import OwnerKey
from daybreak.scheduling.replica_size import accelerators_awake
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, GPU_MODEL, Manifest, service


def status(**wake: Any) -> Any:
    """Return a status with the last wake of one model."""
    return {"gate": {"models": [{"name": "m", "wake": {"depth": "Workers", **wake}}]}}


WAKING = status()
AWAKE = status(seconds=42)
ONE, OTHER = OwnerKey.of_label("ns", "one"), OwnerKey.of_label("ns", "other")


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HELD, WAKES, SLEEPS = Accelerators(held=2), Accelerators(waking=2), Accelerators(given_back=2)


def later(seconds: float) -> datetime:
    """Return a time after the first one."""
    return NOW + timedelta(seconds=seconds)


def test_accelerator_seconds_are_counted_by_state() -> None:
    sums = None
    for second, accelerators in ((0, WAKES), (30, HELD), (100, SLEEPS), (400, WAKES), (440, HELD)):
        sums = count(sums, accelerators, later(second))
    assert sums is not None
    assert (sums.waking_seconds, sums.awake_seconds, sums.saved_seconds) == (140, 140, 600)
    assert (sums.waking, sums.awake, sums.saved) == (0, 2, 0)


def test_savings_are_unchanged_if_accelerators_are_unchanged() -> None:
    first = count(None, SLEEPS, NOW)
    assert count(first, SLEEPS, later(3600)) is first


def test_valid_savings_are_read_back_and_invalid_savings_are_ignored() -> None:
    first = count(None, SLEEPS, NOW)
    message = first.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert savings_before({"savings": message}) == first
    assert savings_before({"savings": {"awakeSeconds": "much"}}) is None
    assert savings_before({}) is None


def test_contended_seconds_are_counted_and_never_decrease() -> None:
    waited = Accelerators(held=2, waited_for=1)
    sums = count(count(None, HELD, NOW), waited, later(10))
    assert (sums.contended_seconds, sums.contended) == (None, 1)
    # A restarted operator does not know at first that other services wait, and then does.
    for second, now, expected in ((70, HELD, 60), (75, waited, 60), (85, SLEEPS, 70), (900, HELD, 70)):
        message = sums.model_dump(mode="json", by_alias=True, exclude_none=True)
        before = savings_before({"savings": message})
        assert before == sums
        sums = count(before, now, later(second))
        assert sums.contended_seconds == expected
    assert sums.awake_seconds == 2 * 85, "it is a part of what was held"
    # If the clock goes back, no time is counted twice, and none is subtracted.
    assert count(count(sums, waited, later(1000)), HELD, later(500)).contended_seconds == 70


def test_prometheus_exports_contended_seconds() -> None:
    savings = Savings(lambda: later(30))
    savings.see(ONE, count(None, Accelerators(held=2, waited_for=2), NOW))
    _, family = savings.collect()
    assert [sample.value for sample in family.samples if sample.name.endswith("_total")] == [60]


def test_prometheus_exports_expected_remaining_wait() -> None:
    waits = ExpectedWaits(lambda: later(30))
    common: dict[str, Any] = {
        "state": "Closed",
        "epoch": 1,
        "hold_seconds": 9,
        "phase": "Waking",
        "phaseTransitionTime": "x",
    }
    rooms = {
        "a": {"expectedTime": "2026-01-02T03:05:05Z"},
        "b": {"expectedTime": "2026-01-02T03:04:10Z"},
        "c": None,
    }
    gates = [
        ModelGate.model_validate({"name": name, "acceleratorQueue": room, **common})
        for name, room in rooms.items()
    ]
    waits.see(ONE, GateStatus(port=20000, models=gates))
    [family] = waits.collect()
    assert {sample.labels["model"]: sample.value for sample in family.samples} == {"a": 30, "b": 0}
    waits.see(ONE, None)
    [family] = waits.collect()
    assert not family.samples


def read_report(savings: Savings) -> dict[tuple[str, str], float]:
    """Return the exported values, by service and state."""
    family, _ = savings.collect()
    return {
        (sample.labels["service"], sample.labels["state"]): sample.value
        for sample in family.samples
        if sample.value
    }


def test_saved_seconds_grow_while_service_sleeps() -> None:
    savings = Savings(lambda: later(10))
    savings.see(ONE, count(None, SLEEPS, NOW))
    savings.see(OTHER, count(None, HELD, NOW))
    assert read_report(savings) == {("one", "saved"): 20, ("other", "awake"): 20}
    savings.see(ONE, None)
    assert read_report(savings) == {("other", "awake"): 20}


def held(model: Manifest, **spec: Any) -> int:
    """Return the accelerators of an awake model."""
    found = service(model, **spec)
    return accelerators_awake(found.workload, found.spec.models[0])


def test_model_counts_accelerators_of_its_minimum_replicas() -> None:
    assert held({**GPU_MODEL, "replicas": {"min": 2}}) == 2
    assert held({**GPU_MODEL, "replicas": {"min": 0}}) == 1
    assert held(CPU_MODEL) == 0, "a CPU is no accelerator"


def test_savings_collector_exports_two_metrics() -> None:
    reported = [family.name for family in SAVINGS.collect()]
    assert reported == ["daybreak_accelerator_seconds", "daybreak_accelerator_contended_seconds"]


def gates(**models: IdleStatus | None) -> GateStatus:
    """Return the gate status of these models."""
    each = {
        "state": "Open",
        "epoch": 1,
        "holdSeconds": 900,
        "phase": "Awake",
        "phaseTransitionTime": "2026-01-02T03:04:05Z",
    }
    found = [ModelGate.model_validate({"name": name, "idle": idle, **each}) for name, idle in models.items()]
    return GateStatus(port=20001, models=found)


def idle_told(times: IdleTimes) -> dict[tuple[str, str, str], float]:
    """Return the exported idle times, by metric, service and model."""
    return {
        (family.name, sample.labels["service"], sample.labels["model"]): sample.value
        for family in times.collect()
        for sample in family.samples
    }


def test_idle_times_are_exported_for_each_model() -> None:
    times = IdleTimes()
    learned = IdleStatus(break_even_seconds=90, recommended_after_idle="2m", after_idle="2m")
    times.see(ONE, gates(m=learned, n=None))
    times.see(OTHER, gates(m=IdleStatus(after_idle="15m")))
    assert idle_told(times) == {
        ("daybreak_break_even_seconds", "one", "m"): 90,
        ("daybreak_recommended_after_idle_seconds", "one", "m"): 120,
        ("daybreak_auto_after_idle_seconds", "one", "m"): 120,
        ("daybreak_auto_after_idle_seconds", "other", "m"): 900,
    }
    times.see(ONE, gates(m=None))
    times.see(OTHER, None)
    assert idle_told(times) == {}


def counted(name: str, before: Any, after: Any) -> float:
    """Return the number of counted wakes of that service after these two statuses."""
    count_wakes(OwnerKey.of_label("ns", name), before, after)
    return float(metrics.WAKES.labels("ns", name, "m", "Workers")._value.get())


def test_a_wake_is_counted_when_it_has_ended() -> None:
    assert counted("six", WAKING, AWAKE) == 1
    for before, after in ((AWAKE, AWAKE), (WAKING, WAKING), (AWAKE, WAKING)):
        assert counted("six", before, after) == 1
    assert counted("six", WAKING, AWAKE) == 2


def test_failed_wake_is_counted_without_its_duration() -> None:
    failed = status(seconds=18_000, failed=True, phases={"firstToken": 18_000})
    sums = [metrics.WAKE_SECONDS.labels("Workers"), metrics.WAKE_STEP_SECONDS.labels("Workers", "firstToken")]
    before = [each._sum.get() for each in sums]
    assert counted("eight", status(failed=True), failed) == 1
    assert [each._sum.get() for each in sums] == before


def test_wake_steps_are_counted_once_per_wake() -> None:
    phases = {"headReady": 0, "workerReady": 30, "firstToken": 42}
    deep = status(depth="Cluster", seconds=42, phases=phases)
    counted("seven", status(depth="Cluster", phases={"headReady": 0}), deep)
    steps = metrics.WAKE_STEP_SECONDS
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30
    assert steps.labels("Cluster", "firstToken")._sum.get() == 42
    counted("seven", deep, deep)
    assert steps.labels("Cluster", "workerReady")._sum.get() == 30, "once"


def test_fixed_number_of_replicas_sets_counted_accelerators() -> None:
    assert held(GPU_MODEL, replicas=3) == 3
    assert held(GPU_MODEL, replicas=0) == 1, "one is made for a request"


def test_yield_is_counted_once_after_accelerators_are_released() -> None:
    def gate(**more: str) -> Any:
        return {"gate": {"models": [{"name": "m", **more}]}}

    def counted(key: OwnerKey) -> float:
        return float(metrics.YIELDS.labels(key.namespace, key.name, "ns/w")._value.get())

    up, drains = gate(phase="Awake"), gate(phase="Draining", yieldedTo="ns/w")
    gone, by_clock = gate(sleepDepth="Workers", yieldedTo="ns/w"), gate(sleepDepth="Workers")
    one, other = OwnerKey.of_label("ns", "yields"), OwnerKey.of_label("ns", "stays")
    for before, after in ((up, drains), (drains, up), (up, by_clock), (by_clock, up), (gone, gone)):
        count_yields(other, before, after)
    count_yields(one, drains, gone)
    count_yields(one, gone, gate(sleepDepth="Cluster", yieldedTo="ns/w"))
    assert (counted(one), counted(other)) == (1, 0)
