"""What the gateway counts at each gate, for Prometheus."""

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
from daybreak.gateway.hold.table import ADDED_BUCKETS, HOLD_BUCKETS, Times

_LABELS = ("service", "model")
"""`model` is empty for requests whose model is not known, of services with several."""


class ServiceMetrics(Collector):
    """Reads the latest state of every gate when it is asked."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        """Every series."""
        held = GaugeMetricFamily("daybreak_gateway_held", "Requests that wait.", labels=_LABELS)
        flying = GaugeMetricFamily(
            "daybreak_gateway_in_flight",
            "Requests that have passed the gate and have not ended.",
            labels=_LABELS,
        )
        servers = GaugeMetricFamily(
            "daybreak_gateway_servers_up",
            "Replicas that answer; 1 where only Serve's proxy does.",
            labels=_LABELS,
        )
        arrivals = CounterMetricFamily("daybreak_gateway_arrivals", "Requests that arrived.", labels=_LABELS)
        ends = CounterMetricFamily(
            "daybreak_gateway_ends", "How requests left the gate.", labels=[*_LABELS, "reason"]
        )
        wakes = CounterMetricFamily(
            "daybreak_gateway_wakes", "How often a closed gate was opened.", labels=_LABELS
        )
        connect = GaugeMetricFamily(
            "daybreak_gateway_connect_seconds",
            "Mean time to connect to the model, of the latest 1024 requests; 0 where connections are reused.",
            labels=_LABELS,
        )
        answers = CounterMetricFamily(
            "daybreak_gateway_answers",
            "Answers by the class of their status, the gateway's own included.",
            labels=[*_LABELS, "code"],
        )
        response = GaugeMetricFamily(
            "daybreak_gateway_response_seconds",
            "Mean time until the model's answer began, of the latest 1024 requests.",
            labels=_LABELS,
        )
        holds = HistogramMetricFamily(
            "daybreak_gateway_hold_seconds",
            "How long requests were held, whatever their end; who was not held is not counted.",
            labels=_LABELS,
        )
        added = HistogramMetricFamily(
            "daybreak_gateway_added_seconds",
            "How long requests waited that could pass: from when the gate was open and a server up, or from "
            "their arrival, until they were passed on. In whole milliseconds: who was not held counts as 0.",
            labels=_LABELS,
        )
        key_labels = ("service", "key")
        asked = CounterMetricFamily(
            "daybreak_gateway_key_requests",
            "Requests that brought an API key, by its name; those that were refused included.",
            labels=key_labels,
        )
        refused = CounterMetricFamily(
            "daybreak_gateway_key_refused",
            "Requests that were refused for their API key's limits or models.",
            labels=key_labels,
        )
        here = GaugeMetricFamily(
            "daybreak_gateway_key_in_flight",
            "Requests with an API key that are here, those that are held included.",
            labels=key_labels,
        )
        for state in self._feed.states.values():
            for name, key in state.keys.items():
                asked.add_metric([state.service, name], key.requests)
                refused.add_metric([state.service, name], key.refused)
                here.add_metric([state.service, name], key.in_flight)
            gate = [state.service, state.model]
            held.add_metric(gate, state.held)
            flying.add_metric(gate, state.in_flight)
            servers.add_metric(gate, state.servers_up)
            arrivals.add_metric(gate, state.arrivals)
            for reason, count in state.ends.items():
                ends.add_metric([*gate, reason], count)
            wakes.add_metric(gate, state.wakes)
            connect.add_metric(gate, state.connect_ms / 1000)
            for code, count in state.answers.items():
                answers.add_metric([*gate, code], count)
            response.add_metric(gate, state.response_ms / 1000)
            never_held = state.ends.get("passed", 0) - sum(state.added.counts)
            holds.add_metric(gate, _buckets(HOLD_BUCKETS, state.holds), state.holds.sum_ms / 1000)
            added.add_metric(
                gate, _buckets(ADDED_BUCKETS, state.added, never_held), state.added.sum_ms / 1000
            )
        yield from (held, flying, servers, arrivals, ends, wakes, connect, answers, response, holds, added)
        yield from (asked, refused, here)


class RouteMetrics(Collector):
    """What each route has sent where, as last seen.

    Args:
        seen: Requests by route and by `service/model`.
    """

    def __init__(self, seen: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        """The one series of each backend."""
        sent = CounterMetricFamily(
            "daybreak_gateway_route_requests",
            "Requests that a route has sent to a model.",
            labels=["route", *_LABELS],
        )
        for route, counts in self._seen().items():
            for backend, count in counts.items():
                service, _, model = backend.partition("/")
                sent.add_metric([route, service, model], count)
        yield sent


def _buckets(bounds: Sequence[float], times: Times, more: int = 0) -> list[tuple[str, float]]:
    """Prometheus counts upwards: each bucket contains those below. `more` took no time at all."""
    counts = times.counts or (0,) * (len(bounds) + 1)
    names = [*map(str, bounds), "+Inf"]
    return [(name, more + below) for name, below in zip(names, accumulate(counts), strict=True)]
