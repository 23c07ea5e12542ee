"""Metrics of requests to the API server."""

from prometheus_client import Counter, Gauge, disable_created_metrics

# Counters would otherwise have an additional series each that no dashboard uses.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUESTS = Counter("daybreak_api_requests_total", "Requests to the API server.", ["verb", "resource", "code"])
RELISTS = Counter("daybreak_reflector_lists_total", "Complete lists that a reflector has read.", ["resource"])
WATCH_FAILURES = Counter(
    "daybreak_reflector_failures_total", "Lists and watches that failed or stalled.", ["resource"]
)
CACHED = Gauge("daybreak_cached_objects", "Objects in the operator's cache.", ["resource"])
LEADER = Gauge("daybreak_leader", "1 while this operator holds the lease.")
