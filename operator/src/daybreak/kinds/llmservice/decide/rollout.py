"""Observed progress of a change of a service."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from daybreak.api.common import names
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.status import ModelState
from daybreak.kinds.llmservice.decide.caches import caches
from daybreak.kinds.llmservice.decide.cluster_bounds import matches_ray_service
from daybreak.kinds.llmservice.decide.first_cluster import first_cluster, given_up, serves_there, still_go
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.problems import to_act_on
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.view import View
from daybreak.kinds.llmservice.objects.built_with import BuiltWith, wishes
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.views.ray_pods import HEAD, pod_views, requests_by_node, unschedulable
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts.machine import Errors
from daybreak.scheduling import claim, room
from daybreak.scheduling.replica_size import pods_per_replica
from daybreak.workloads.rolled import Course


def course(view: View) -> Course:
    """Return the observed progress of a change of a service."""
    observed, snapshot, models = view.observed, view.snapshot, view.models
    ray, history = snapshot.ray, observed.history
    carried_out = _carried_out(observed) and ray.observed
    other = history is not None and history.desired != history.built
    return Course(
        carried_out=carried_out,
        answers=carried_out and not ray.upgrading and not snapshot.first and _answer(snapshot, models),
        asleep=snapshot.asleep,
        vacated=observed.asleep is SleepDepth.CLUSTER and (not ray.exists or ray.leaving),
        beside=ray.upgrading or serves_there(observed, snapshot.first),
        changes=observed.changes,
        crowded=_crowded(observed) if observed.changes else None,
        no_room=_no_room(observed, snapshot) if carried_out else "",
        problems="; ".join(problem.message for problem in to_act_on(snapshot, models, None)),
        errors=_errors(models) if carried_out else None,
        preparing=_preparing(observed) if other else "",
        filling=bool(snapshot.waited_for),
    )


def _carried_out(observed: Observed) -> bool:
    """Return True if the RayService is what the revision requests."""
    if observed.subject is None or observed.ray_service is None:
        return False
    was = BuiltWith.of(observed.ray_service)
    return was is None or was.wishes == wishes(observed.subject)


def _no_room(observed: Observed, snapshot: Snapshot) -> str:
    """Return the scheduler's message if the new Ray cluster has found no capacity alongside another one.

    The result is empty if it has found capacity, or while deleted pods still occupy its capacity.
    """
    ray = snapshot.ray
    if (
        not ray.upgrading
        or still_go(observed, ray, snapshot.pods)
        or matches_ray_service(observed, ray.pending) is False
    ):
        return ""
    found = unschedulable(pod for pod in snapshot.pods if pod.cluster == ray.pending)
    return found[1] if found is not None and observed.now - found[0] >= claim.PATIENCE else ""


def _answer(snapshot: Snapshot, models: Sequence[ModelHealth]) -> bool:
    """Return True if at least one model is awake, and each awake model has answered in its current state."""
    up = [model for model in models if model.state is not ModelState.ASLEEP]
    return bool(up) and all(model.answering and model.state is not ModelState.UPDATING for model in up)


def _errors(models: Sequence[ModelHealth]) -> Errors | None:
    """Return the message of the model that has answered only with errors for longest, or None."""
    found = [
        Errors(model.errors_since, f"model {model.name}: {model.problem.message}")
        for model in models
        if model.errors_since is not None and model.problem is not None
    ]
    return min(found, key=lambda each: each.since, default=None)


def _preparing(observed: Observed) -> str:
    """Return the progress of missing copies of weights that the requested revision needs."""
    target = observed.target
    views = caches(observed, target) if target is not None else ()
    return "; ".join(
        f"model {view.model}: {view.problem.message if view.problem is not None else view.doing}"
        for view in views
        if not view.complete and view.model not in observed.given_back
    )


def _crowded(observed: Observed) -> str | None:
    """Return why a second Ray cluster has no capacity now; empty if it has, or None if that is unknown.

    The second cluster needs as many replicas as run. Workers of an abandoned cluster that it replaces count
    as gone. If the fit check is off, the nodes give no answer: new ones may join, or others may be used by
    more than pods.
    """
    target = observed.target
    if target is None or observed.nodes is None or observed.booked is None or not observed.fit_checked:
        return None
    ray, pods = ray_view(observed.ray_service), pod_views(observed.pods)
    serving = first_cluster(observed, ray) or ray.active
    placed = Counter(pod.group for pod in pods if pod.counts and pod.placed and pod.cluster == serving)
    replicas = {}
    for model in target.spec.models:
        allowed = replica_range(target.workload, model)
        run = placed[names.worker_group(model.name)] // pods_per_replica(model)
        replicas[model.name] = (
            0 if model.name in observed.given_back else max(allowed.initial, min(run, allowed.max))
        )
    gone = given_up(observed, ray)
    comes_free = requests_by_node(pod for pod in pods if pod.cluster in gone and pod.role != HEAD)
    booked = {
        node: {what: amount - comes_free.get(node, {}).get(what, Decimal(0)) for what, amount in held.items()}
        for node, held in observed.booked.items()
    }
    return room.crowded(target.workload, replicas, observed.nodes, booked)
