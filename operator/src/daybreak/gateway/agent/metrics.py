"""What the gateway counts of each service, for Prometheus."""

from collections.abc import Iterator, Sequence
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


class ServiceMetrics(Collector):
    """Reads the latest state of every service when it is asked."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        """Every series."""
        held = GaugeMetricFamily("daybreak_gateway_held", "Requests that wait.", labels=["service"])
        flying = GaugeMetricFamily(
            "daybreak_gateway_in_flight",
            "Requests that have passed the gate and have not ended.",
            labels=["service"],
        )
        servers = GaugeMetricFamily(
            "daybreak_gateway_servers_up",
            "Replicas that answer; 1 where only Serve's proxy does.",
            labels=["service"],
        )
        arrivals = CounterMetricFamily(
            "daybreak_gateway_arrivals", "Requests that arrived.", labels=["service"]
        )
        ends = CounterMetricFamily(
            "daybreak_gateway_ends", "How requests left the gate.", labels=["service", "reason"]
        )
        wakes = CounterMetricFamily(
            "daybreak_gateway_wakes", "How often a closed gate was opened.", labels=["service"]
        )
        connect = GaugeMetricFamily(
            "daybreak_gateway_connect_seconds",
            "Mean time to connect to the model, of the latest 1024 requests; 0 where connections are reused.",
            labels=["service"],
        )
        answers = CounterMetricFamily(
            "daybreak_gateway_answers",
            "Answers by the class of their status, the gateway's own included.",
            labels=["service", "code"],
        )
        response = GaugeMetricFamily(
            "daybreak_gateway_response_seconds",
            "Mean time until the model's answer began, of the latest 1024 requests.",
            labels=["service"],
        )
        holds = HistogramMetricFamily(
            "daybreak_gateway_hold_seconds",
            "How long requests were held, whatever their end; who was not held is not counted.",
            labels=["service"],
        )
        added = HistogramMetricFamily(
            "daybreak_gateway_added_seconds",
            "How long requests waited that could pass: from when the gate was open and a server up, or from "
            "their arrival, until they were passed on. In whole milliseconds: who was not held counts as 0.",
            labels=["service"],
        )
        for name, state in self._feed.states.items():
            held.add_metric([name], state.held)
            flying.add_metric([name], state.in_flight)
            servers.add_metric([name], state.servers_up)
            arrivals.add_metric([name], state.arrivals)
            for reason, count in state.ends.items():
                ends.add_metric([name, reason], count)
            wakes.add_metric([name], state.wakes)
            connect.add_metric([name], state.connect_ms / 1000)
            for code, count in state.answers.items():
                answers.add_metric([name, code], count)
            response.add_metric([name], state.response_ms / 1000)
            never_held = state.ends.get("passed", 0) - sum(state.added.counts)
            holds.add_metric([name], _buckets(HOLD_BUCKETS, state.holds), state.holds.sum_ms / 1000)
            added.add_metric(
                [name], _buckets(ADDED_BUCKETS, state.added, never_held), state.added.sum_ms / 1000
            )
        yield from (held, flying, servers, arrivals, ends, wakes, connect, answers, response, holds, added)


def _buckets(bounds: Sequence[float], times: Times, more: int = 0) -> list[tuple[str, float]]:
    """Prometheus counts upwards: each bucket contains those below. `more` took no time at all."""
    counts = times.counts or (0,) * (len(bounds) + 1)
    names = [*map(str, bounds), "+Inf"]
    return [(name, more + below) for name, below in zip(names, accumulate(counts), strict=True)]
