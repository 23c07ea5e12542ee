"""The steps of a wake, read off what is there.

A pod says itself when it was made, had its node and was ready, so a new operator reads the same. Only the
start of the engines leaves no time anywhere (Serve's own `start_time_s` is when a replica was begun with):
it is noted when it is first seen, and stands from then on.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from daybreak.api.common import names
from daybreak.api.common.unstructured import condition, mapping, parse_time, text
from daybreak.api.gates.gate_status import WakePhases
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.model_checks import SETTLE
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.serve_problems import deployment_of
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import HEALTHY
from daybreak.scheduling.replica_size import pods_per_replica

When = Callable[[PodView], datetime | None]


def wake_timeline(
    snapshot: Snapshot, model: Model, started: datetime, before: WakePhases | None
) -> WakePhases | None:
    """The steps of a model's wake that were done since `started`; `before` were done already. None: none."""
    before = before or WakePhases()
    if before.engine_started is not None:
        # What happens to the pods of an engine that runs is not part of the wake.
        return before
    heads, workers = _pods(snapshot)

    def head(when: When) -> int | None:
        moments = [moment for moment in map(when, heads) if moment is not None]
        return _seconds(started, max(moments)) if moments else None

    def replica(when: When) -> int | None:
        moment = _first_replica(model, workers, when)
        return None if moment is None else _seconds(started, moment)

    worker_ready = replica(_ready)
    runs = worker_ready is not None and snapshot.now - started >= SETTLE and _engine_runs(snapshot, model)
    found = WakePhases(
        objects=head(_created),
        head_ready=head(_ready),
        worker_scheduled=replica(_scheduled),
        worker_ready=worker_ready,
        engine_started=_seconds(started, snapshot.now) if runs else None,
    ).model_dump(exclude_none=True)
    # A pod that is gone again takes nothing back; the one in its place tells its own when it is as far.
    done = before.model_copy(update=found)
    return done if done.model_dump(exclude_none=True) else None


def _pods(snapshot: Snapshot) -> tuple[list[PodView], list[PodView]]:
    """Heads and workers of the Ray cluster that is to serve."""
    cluster = snapshot.ray.active or snapshot.ray.pending
    if not cluster or snapshot.ray.leaving:
        return [], []
    here = [pod for pod in snapshot.pods if pod.cluster == cluster and pod.counts]
    return [pod for pod in here if pod.role == HEAD], [pod for pod in here if pod.role != HEAD]


def _first_replica(model: Model, workers: Sequence[PodView], when: When) -> datetime | None:
    """When as many worker pods of a model were as far as one replica needs."""
    group, needed = names.worker_group(model.name), pods_per_replica(model)
    moments = sorted(moment for pod in workers if pod.group == group and (moment := when(pod)) is not None)
    return moments[needed - 1] if len(moments) >= needed else None


def _engine_runs(snapshot: Snapshot, model: Model) -> bool:
    """Whether Serve calls the replicas of the model healthy, of the configuration that is now."""
    application = snapshot.ray.application if snapshot.ray.active else snapshot.ray.pending_application
    found = deployment_of(application, model.name)
    return snapshot.ray.observed and found is not None and found.status == HEALTHY


def _seconds(started: datetime, moment: datetime) -> int:
    return max(0, round((moment - started) / timedelta(seconds=1)))


def _created(pod: PodView) -> datetime | None:
    return parse_time(text(mapping(pod.manifest.get("metadata")).get("creationTimestamp")))


def _scheduled(pod: PodView) -> datetime | None:
    return _since(pod, "PodScheduled")


def _ready(pod: PodView) -> datetime | None:
    return _since(pod, "Ready")


def _since(pod: PodView, kind: str) -> datetime | None:
    found = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None
