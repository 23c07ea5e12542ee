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
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.serve_problems import deployment_of
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import HEALTHY
from daybreak.scheduling.replica_size import pods_per_replica

When = Callable[[PodView], datetime | None]


def wake_timeline(
    snapshot: Snapshot, models: Sequence[ModelHealth], started: datetime, before: WakePhases | None
) -> WakePhases | None:
    """The steps done since `started`, where `before` were done already; None: none yet."""
    before = before or WakePhases()
    if before.engine_started is not None:
        # What happens to the pods of an engine that runs is not part of the wake.
        return before
    heads, workers = _pods(snapshot)
    waking = _waking(snapshot, models)

    def head(when: When) -> int | None:
        moments = [moment for moment in map(when, heads) if moment is not None]
        return _seconds(started, max(moments)) if moments else None

    def replicas(when: When) -> int | None:
        moments = [_first_replica(model, workers, when) for model in waking]
        known = [moment for moment in moments if moment is not None]
        return _seconds(started, max(known)) if known and len(known) == len(moments) else None

    worker_ready = replicas(_ready)
    runs = worker_ready is not None and snapshot.now - started >= SETTLE and _engines_run(snapshot, waking)
    found = WakePhases(
        objects=head(_created),
        head_ready=head(_ready),
        worker_scheduled=replicas(_scheduled),
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


def _waking(snapshot: Snapshot, models: Sequence[ModelHealth]) -> list[Model]:
    """The models that are waited for: not those that stay at zero, or that nobody waits for any more."""
    given_up = {model.name for model in models if model.problem is not None and model.problem.stalled}
    return [
        model
        for model in snapshot.service.spec.models
        if model.name not in given_up and replica_range(snapshot.service.workload, model).initial > 0
    ]


def _first_replica(model: Model, workers: Sequence[PodView], when: When) -> datetime | None:
    """When as many worker pods of a model were as far as one replica needs."""
    group, needed = names.worker_group(model.name), pods_per_replica(model)
    moments = sorted(moment for pod in workers if pod.group == group and (moment := when(pod)) is not None)
    return moments[needed - 1] if len(moments) >= needed else None


def _engines_run(snapshot: Snapshot, waking: Sequence[Model]) -> bool:
    """Whether Serve calls the replicas of every model healthy, of the configuration that is now."""
    application = snapshot.ray.application if snapshot.ray.active else snapshot.ray.pending_application
    found = [deployment_of(application, model.name) for model in waking]
    return snapshot.ray.observed and all(each is not None and each.status == HEALTHY for each in found)


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
