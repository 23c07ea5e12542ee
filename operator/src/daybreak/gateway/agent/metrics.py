"""Counts of the gateway at each gate, for Prometheus."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from daybreak.gateway.agent.feed import Feed
from daybreak.gateway.hold.table import ADDED_BUCKETS, HOLD_BUCKETS, KeyState, SlotState, Times

_LABELS = ("service", "model")
"""Labels of a gate. `model` is empty for requests whose model is not known, of services with several
models."""


class ServiceMetrics(Collector):
    """Collector of the latest state of every gate."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        """Yield the series family by family: with a thousand services they are some 60,000 in total."""
        states = list(self._feed.states.values())
        for kind, name, text, value in _NUMBERS:
            family = kind(f"daybreak_gateway_{name}", text, labels=_LABELS)
            for state in states:
                family.add_metric([state.service, state.model], value(state))
            yield family
        for name, text, label, counts in _COUNTS:
            counted = CounterMetricFamily(f"daybreak_gateway_{name}", text, labels=[*_LABELS, label])
            for state in states:
                for what, count in counts(state).items():
                    counted.add_metric([state.service, state.model, what], count)
            yield counted
        for name, text, bounds, times in _TIMES:
            spread = HistogramMetricFamily(f"daybreak_gateway_{name}", text, labels=_LABELS)
            for state in states:
                found, more = times(state)
                spread.add_metric(
                    [state.service, state.model], _buckets(bounds, found, more), found.sum_ms / 1000
                )
            yield spread
        for kind, name, text, of_key in _KEYS:
            family = kind(f"daybreak_gateway_{name}", text, labels=("service", "key"))
            for state in states:
                for key_name, key in state.keys.items():
                    family.add_metric([state.service, key_name], of_key(key))
            yield family


_Numbers = type[GaugeMetricFamily] | type[CounterMetricFamily]
_NUMBERS: Sequence[tuple[_Numbers, str, str, Callable[[SlotState], float]]] = (
    (GaugeMetricFamily, "held", "Current number of held requests.", lambda state: state.held),
    (
        GaugeMetricFamily,
        "in_flight",
        "Current number of requests that have passed the gate and have not ended.",
        lambda state: state.in_flight,
    ),
    (
        GaugeMetricFamily,
        "servers_up",
        "Current number of answering replicas; 1 if only Serve's proxy answers.",
        lambda state: state.servers_up,
    ),
    (
        CounterMetricFamily,
        "requests",
        "Total number of requests that reached the gate.",
        lambda state: state.arrivals,
    ),
    (CounterMetricFamily, "wakes", "Total number of openings of a closed gate.", lambda state: state.wakes),
    (
        GaugeMetricFamily,
        "connect_seconds",
        "Mean time in seconds to connect, over the latest 1024 requests; 0 for reused connections.",
        lambda state: state.connect_ms / 1000,
    ),
    (
        GaugeMetricFamily,
        "first_byte_seconds",
        "Mean time in seconds until the first byte of a response, over the latest 1024 requests.",
        lambda state: state.response_ms / 1000,
    ),
)
_COUNTS: Sequence[tuple[str, str, str, Callable[[SlotState], Mapping[str, int]]]] = (
    (
        "request_ends",
        "Total number of requests that left the gate, by reason.",
        "reason",
        lambda state: state.ends,
    ),
    (
        "responses",
        "Total number of responses by status class, including responses of the gateway itself.",
        "code",
        lambda state: state.answers,
    ),
)
_TIMES: Sequence[tuple[str, str, Sequence[float], Callable[[SlotState], tuple[Times, int]]]] = (
    (
        "hold_seconds",
        "Duration of holds in seconds, for held requests with any outcome.",
        HOLD_BUCKETS,
        lambda state: (state.holds, 0),
    ),
    (
        "release_delay_seconds",
        "Delay in seconds, to the millisecond, of requests after the gate was open with a server up, or "
        "after their arrival, until they were forwarded. A request that was not held counts as 0.",
        ADDED_BUCKETS,
        # A request that was never held took no time.
        lambda state: (state.added, state.ends.get("passed", 0) - sum(state.added.counts)),
    ),
)
_KEYS: Sequence[tuple[_Numbers, str, str, Callable[[KeyState], float]]] = (
    (
        CounterMetricFamily,
        "key_requests",
        "Total number of requests with an API key, by the key's name, including rejected requests.",
        lambda key: key.requests,
    ),
    (
        CounterMetricFamily,
        "key_refused",
        "Total number of requests rejected by the limits or models of their API key.",
        lambda key: key.refused,
    ),
    (
        GaugeMetricFamily,
        "key_in_flight",
        "Current number of requests with an API key in the gateway, including held requests.",
        lambda key: key.in_flight,
    ),
)


class RouteMetrics(Collector):
    """Counts of requests by route and destination, as last read.

    Args:
        observed: Function that returns requests by route and by `service/model`.
    """

    def __init__(self, observed: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        self._observed = observed

    def collect(self) -> Iterator[Metric]:
        """Yield the only family, with one series for each backend."""
        sent = CounterMetricFamily(
            "daybreak_gateway_route_requests",
            "Total number of requests that a route has sent to a model.",
            labels=["route", *_LABELS],
        )
        for route, counts in self._observed().items():
            for backend, count in counts.items():
                service, _, model = backend.partition("/")
                sent.add_metric([route, service, model], count)
        yield sent


def _buckets(bounds: Sequence[float], times: Times, more: int = 0) -> list[tuple[str, float]]:
    """Return cumulative buckets for Prometheus, each including the lower ones.

    `more` requests took no time.
    """
    counts = times.counts or (0,) * (len(bounds) + 1)
    names = [*map(str, bounds), "+Inf"]
    return [(name, more + below) for name, below in zip(names, accumulate(counts), strict=True)]
