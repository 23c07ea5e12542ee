"""Metrics of reconciles."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter(
    "daybreak_reconciles_total", "Total number of reconciles by kind and outcome.", ["kind", "outcome"]
)
DURATION = Histogram(
    "daybreak_reconcile_seconds",
    "Duration of reconciles in seconds, by kind.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
WAITING = Gauge("daybreak_workqueue_depth", "Current number of objects that wait for a worker.")
OLDEST = Gauge(
    "daybreak_workqueue_oldest_seconds", "Time in seconds that the oldest object has waited for a worker."
)
RUNNING = Gauge("daybreak_workqueue_active", "Current number of reconciles in progress.")
LOOP_LAG = Gauge("daybreak_event_loop_lag_seconds", "Delay in seconds of the event loop's latest timer tick.")
WRITES = Counter("daybreak_writes_total", "Total number of written objects by kind.", ["kind"])
WAKES = Counter(
    "daybreak_wakes_total",
    "Total number of wakes that ended with an answer.",
    ["namespace", "service", "model", "depth"],
)
_WAKE_BUCKETS = (1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200)
WAKE_SECONDS = Histogram(
    "daybreak_wake_seconds",
    "Duration of wakes in seconds until the first answer, excluding wakes with a failed attempt.",
    ["depth"],
    buckets=_WAKE_BUCKETS,
)
WAKE_STEP_SECONDS = Histogram(
    "daybreak_wake_step_seconds",
    "Time in seconds from the start of a wake to the end of a step in status.wake.phases, excluding wakes "
    "with a failed attempt.",
    ["depth", "step"],
    buckets=_WAKE_BUCKETS,
)
WAITING_FOR_ACCELERATORS = Gauge(
    "daybreak_waiting_for_accelerators", "Current number of starting models whose pods cannot be scheduled."
)
ACCELERATOR_WAIT_SECONDS = Histogram(
    "daybreak_accelerator_wait_seconds",
    "Time in seconds that models waited for capacity for their pods, by the accelerators' resource; "
    "`cpu`: models without accelerators.",
    ["resource"],
    buckets=(5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600),
)
YIELDS = Counter(
    "daybreak_yields_total",
    "Total number of yields by workload and by the workload that waited for its accelerators.",
    ["namespace", "name", "yielded_to"],
)
ASKED = Counter("daybreak_model_probes_total", "Total number of probes of models by outcome.", ["outcome"])
