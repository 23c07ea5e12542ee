"""Metrics of requests to the API server."""

from prometheus_client import Counter, Gauge, disable_created_metrics

# Counters would otherwise have an additional series each that no dashboard uses.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUESTS = Counter(
    "daybreak_api_requests_total", "Total number of requests to the API server.", ["verb", "resource", "code"]
)
RELISTS = Counter(
    "daybreak_reflector_lists_total",
    "Total number of complete lists that a reflector has read.",
    ["resource"],
)
WATCH_FAILURES = Counter(
    "daybreak_reflector_failures_total", "Total number of failed or stalled lists and watches.", ["resource"]
)
CACHED = Gauge("daybreak_cached_objects", "Current number of objects in the operator's cache.", ["resource"])
LEADER = Gauge("daybreak_leader", "1 while this operator holds the lease.")
