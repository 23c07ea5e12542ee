"""Counting what sleep saves and what wakes have taken."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from daybreak.api.common.unstructured import mapping, mappings, text, whole
from daybreak.controller import metrics
from daybreak.kube.cache import Key


@dataclass(frozen=True)
class _Tally:
    saved: float
    """Accelerator seconds up to `since`."""
    since: float
    accelerators: int
    """Saved from then on; 0: the service is awake, or has gone."""

    def at(self, now: float) -> float:
        return self.saved + self.accelerators * (now - self.since)


class Savings(Collector):
    """Accelerator seconds that services have saved by sleeping, up to the moment in which somebody asks.

    They are counted from when this process first saw a service asleep.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: dict[Key, _Tally] = {}

    def see(self, key: Key, accelerators: int) -> None:
        """Say how many accelerators a service saves from now on, by sleeping."""
        before = self._tallies.get(key)
        if accelerators != (before.accelerators if before else 0):
            now = self._clock()
            self._tallies[key] = _Tally(before.at(now) if before else 0.0, now, accelerators)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """As prometheus_client asks for it, in the process's main thread or another one."""
        family = CounterMetricFamily(
            "daybreak_gpu_seconds_saved",
            "Accelerators that a service would have held awake, times the seconds that it has slept so far.",
            labels=["namespace", "service"],
        )
        now = self._clock()
        for key, tally in list(self._tallies.items()):
            family.add_metric([key.namespace, key.name], tally.at(now))
        yield family


SAVED = Savings()
REGISTRY.register(SAVED)


def count_wakes(key: Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Count the wakes of which a status says for the first time that they have ended."""
    was, now = _wakes(before), _wakes(after)
    for model, wake in now.items():
        if wake.get("seconds") is None or was.get(model, {}).get("seconds") is not None:
            continue
        depth = text(wake.get("depth"))
        metrics.WAKES.labels(key.namespace, key.name, model, depth).inc()
        if wake.get("failed"):
            continue  # how long it took is mostly the time until somebody acted
        metrics.WAKE_SECONDS.labels(depth).observe(whole(wake.get("seconds")))
        for step, seconds in mapping(wake.get("phases")).items():
            metrics.WAKE_STEP_SECONDS.labels(depth, step).observe(whole(seconds))


def _wakes(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The last wake of each model, as a status says it."""
    gates = mappings(mapping(status.get("gate")).get("models"))
    return {text(gate.get("name")): mapping(gate.get("wake")) for gate in gates}
