"""Metrics of the savings by sleep and of the durations of wakes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from daybreak.api.common.unstructured import mapping, mappings, parse_time, text, whole
from daybreak.api.gates.gate_status import GateStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.scalars import seconds
from daybreak.controller import metrics
from daybreak.gates.ledger import counted
from daybreak.manifests.keys import OwnerKey


class Savings(Collector):
    """Accelerator-seconds of every service from the statuses, up to the time of the scrape."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._known: dict[OwnerKey, SavingsStatus] = {}

    def see(self, owner: OwnerKey, savings: SavingsStatus | None) -> None:
        """Update the savings of a service. None if the status has none, or the service was deleted."""
        if savings is None:
            self._known.pop(owner, None)
        else:
            self._known[owner] = savings

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the metrics; prometheus_client calls this in the process's main thread or another one."""
        family = CounterMetricFamily(
            "daybreak_accelerator_seconds",
            "Total accelerator-seconds of a workload by state: awake, waking, or saved by sleep.",
            labels=["namespace", "service", "state"],
        )
        waited = CounterMetricFamily(
            "daybreak_accelerator_contended_seconds",
            "Total accelerator-seconds in state awake for which pods of other workloads waited.",
            labels=["namespace", "service"],
        )
        now = self._clock()
        for owner, before in list(self._known.items()):
            sums = counted(before, now)
            for state, so_many in (
                ("awake", sums.awake_seconds), ("waking", sums.waking_seconds), ("saved", sums.saved_seconds)
            ):  # fmt: skip
                family.add_metric([owner.namespace, owner.label, state], so_many)
            waited.add_metric([owner.namespace, owner.label], sums.contended_seconds or 0.0)
        yield from (family, waited)


SAVINGS = Savings()
REGISTRY.register(SAVINGS)


class IdleTimes(Collector):
    """Idle times of every model that sleeps by itself, from the statuses."""

    def __init__(self) -> None:
        self._known: dict[OwnerKey, dict[str, IdleStatus]] = {}

    def see(self, owner: OwnerKey, gate: GateStatus | None) -> None:
        """Update the idle times of a service. None without gates, or if the service was deleted."""
        models = gate.models if gate is not None else ()
        found = {each.name: each.idle for each in models if each.idle is not None}
        if found:
            self._known[owner] = found
        else:
            self._known.pop(owner, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the metrics; prometheus_client calls this in the process's main thread or another one."""
        labels = ["namespace", "service", "model"]
        even, best, force = (
            GaugeMetricFamily(f"daybreak_{name}_seconds", about, labels=labels)
            for name, about in (
                ("break_even", "Idle time in seconds that costs as much as waking the model."),
                ("recommended_after_idle", "Idle time in seconds that would have cost least so far."),
                ("auto_after_idle", "Current idle time in seconds that sleep.afterIdle: Auto uses."),
            )
        )
        for owner, models in list(self._known.items()):
            for model, idle in models.items():
                of = [owner.namespace, owner.label, model]
                if idle.break_even_seconds is not None:
                    even.add_metric(of, idle.break_even_seconds)
                if idle.recommended_after_idle is not None:
                    best.add_metric(of, seconds(idle.recommended_after_idle))
                if idle.after_idle is not None:
                    force.add_metric(of, seconds(idle.after_idle))
        yield from (even, best, force)


IDLE_TIMES = IdleTimes()
REGISTRY.register(IDLE_TIMES)


class ExpectedWaits(Collector):
    """Expected wait of every model in an accelerator queue, from the statuses."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._known: dict[OwnerKey, dict[str, datetime]] = {}

    def see(self, owner: OwnerKey, gate: GateStatus | None) -> None:
        """Update the expected waits of a service. None without gates, or if the service was deleted."""
        found = {}
        for each in gate.models if gate is not None else ():
            expected = each.accelerator_queue.expected_time if each.accelerator_queue is not None else None
            if (moment := parse_time(expected or "")) is not None:
                found[each.name] = moment
        if found:
            self._known[owner] = found
        else:
            self._known.pop(owner, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the metrics; prometheus_client calls this in the process's main thread or another one."""
        family = GaugeMetricFamily(
            "daybreak_expected_wait_seconds",
            "Expected time in seconds until a model's pods have capacity, from the durations of past waits.",
            labels=["namespace", "service", "model"],
        )
        now = self._clock()
        for owner, models in list(self._known.items()):
            for model, moment in models.items():
                family.add_metric(
                    [owner.namespace, owner.label, model], max(0.0, (moment - now).total_seconds())
                )
        yield family


EXPECTED_WAITS = ExpectedWaits()
REGISTRY.register(EXPECTED_WAITS)


def count_wakes(owner: OwnerKey, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Count the wakes whose end a status shows for the first time."""
    was, now = _wakes(before), _wakes(after)
    for model, wake in now.items():
        if wake.get("seconds") is None or was.get(model, {}).get("seconds") is not None:
            continue
        depth = text(wake.get("depth"))
        metrics.WAKES.labels(owner.namespace, owner.label, model, depth).inc()
        if wake.get("failed"):
            continue  # mostly the time until an administrator acted
        metrics.WAKE_SECONDS.labels(depth).observe(whole(wake.get("seconds")))
        for step, took in mapping(wake.get("phases")).items():
            metrics.WAKE_STEP_SECONDS.labels(depth, step).observe(whole(took))


def count_yields(owner: OwnerKey, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Count the yields to other workloads that a status shows for the first time."""
    was = {text(gate.get("name")): gate for gate in _gates(before)}
    for gate in _gates(after):
        had_it = was.get(text(gate.get("name")), {}).get("sleepDepth") is None
        if had_it and gate.get("sleepDepth") is not None and (other := text(gate.get("yieldedTo"))):
            metrics.YIELDS.labels(owner.namespace, owner.label, other).inc()


def _wakes(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the last wake of each model in a status."""
    return {text(gate.get("name")): mapping(gate.get("wake")) for gate in _gates(status)}


def _gates(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return mappings(mapping(status.get("gate")).get("models"))
