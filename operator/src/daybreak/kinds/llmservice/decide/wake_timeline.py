"""Timeline of a wake of one model of a service.

Only the start of the engines leaves no timestamp: Serve's `start_time_s` is the time at which the start of a
replica began. The operator records the time when it first observes that the engines run, and keeps it.
"""

from datetime import datetime

from daybreak.api.common import names
from daybreak.api.gates.gate_status import WakePhases
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.model_checks import SETTLE
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.serve_problems import deployment_of
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import HEALTHY
from daybreak.scheduling.replica_size import pods_per_replica
from daybreak.workloads import wake_steps


def wake_timeline(
    snapshot: Snapshot, model: Model, started: datetime, before: WakePhases | None
) -> WakePhases | None:
    """Return the steps of a model's wake that were completed since `started`, or None if there are none.

    `before` has the steps that were completed previously.
    """
    if before is not None and before.engine_started is not None:
        # Changes of the pods of a running engine are not part of the wake.
        return before
    pods, group, needed = _pods(snapshot), names.worker_group(model.name), pods_per_replica(model)
    heads = [pod for pod in pods if pod.role == HEAD]
    workers = [pod for pod in pods if pod.role != HEAD and pod.group == group]
    ready = wake_steps.first(workers, wake_steps.ready, started, needed)
    runs = ready is not None and snapshot.now - started >= SETTLE and _engine_runs(snapshot, model)
    found = WakePhases(
        objects=wake_steps.last(heads, wake_steps.created, started),
        head_ready=wake_steps.last(heads, wake_steps.ready, started),
        worker_scheduled=wake_steps.first(workers, wake_steps.scheduled, started, needed),
        worker_ready=ready,
        engine_started=wake_steps.seconds_after(started, snapshot.now) if runs else None,
    )
    return wake_steps.together(before, found)


def _pods(snapshot: Snapshot) -> list[PodView]:
    """Return the pods of the Ray cluster that must serve."""
    cluster = snapshot.ray.active or snapshot.ray.pending
    if not cluster or snapshot.ray.leaving:
        return []
    return [pod for pod in snapshot.pods if pod.cluster == cluster and pod.counts]


def _engine_runs(snapshot: Snapshot, model: Model) -> bool:
    """Return True if Serve reports the model's replicas as healthy in the current configuration."""
    application = snapshot.ray.application if snapshot.ray.active else snapshot.ray.pending_application
    found = deployment_of(application, model.name)
    return snapshot.ray.observed and found is not None and found.status == HEALTHY
