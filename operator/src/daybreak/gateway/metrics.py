"""What the gateway counts of each service, for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daybreak.gateway.feed import Feed


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
            "daybreak_gateway_servers_up", "Serve proxies that answer.", labels=["service"]
        )
        arrivals = CounterMetricFamily(
            "daybreak_gateway_arrivals", "Requests that arrived.", labels=["service"]
        )
        ends = CounterMetricFamily(
            "daybreak_gateway_ends", "How requests left the gate.", labels=["service", "reason"]
        )
        for name, state in self._feed.states.items():
            held.add_metric([name], state.held)
            flying.add_metric([name], state.in_flight)
            servers.add_metric([name], state.servers_up)
            arrivals.add_metric([name], state.arrivals)
            for reason, count in state.ends.items():
                ends.add_metric([name, reason], count)
        yield from (held, flying, servers, arrivals, ends)
