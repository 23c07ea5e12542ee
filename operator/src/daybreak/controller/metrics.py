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
LOOP_LAG = Gauge(
    "daybreak_event_loop_lag_seconds", "How late the event loop came to a timer, at its last tick."
)
WRITES = Counter("daybreak_writes_total", "Objects written, by kind.", ["kind"])
WAKES = Counter(
    "daybreak_wakes_total", "Wakes that ended with an answer.", ["namespace", "service", "model", "depth"]
)
_WAKE_BUCKETS = (1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200)
WAKE_SECONDS = Histogram(
    "daybreak_wake_seconds",
    "From the beginning of a wake to the first answer; wakes that had failed on the way are left out.",
    ["depth"],
    buckets=_WAKE_BUCKETS,
)
WAKE_STEP_SECONDS = Histogram(
    "daybreak_wake_step_seconds",
    "From the beginning of such a wake to the end of a step, by the step's name in status.wake.phases.",
    ["depth", "step"],
    buckets=_WAKE_BUCKETS,
)
WAITING_FOR_ACCELERATORS = Gauge(
    "daybreak_waiting_for_accelerators", "Models on the way up that find no room for their pods."
)
ACCELERATOR_WAIT_SECONDS = Histogram(
    "daybreak_accelerator_wait_seconds",
    "How long models had found no room for their pods when they found it, by the accelerators' resource; "
    "`cpu`: those without accelerators.",
    ["resource"],
    buckets=(5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600),
)
YIELDS = Counter(
    "daybreak_yields_total",
    "Workloads that gave their accelerators back before their time, by the workload that waited for them.",
    ["namespace", "name", "yielded_to"],
)
ASKED = Counter("daybreak_model_probes_total", "Total number of probes of models by outcome.", ["outcome"])
