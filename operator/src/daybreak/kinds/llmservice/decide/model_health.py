"""State of each model, and the decision whether to probe it before clients may rely on it.

An answer of a model stays valid while nothing could have changed the model. That means the same Ray cluster,
the same configuration (numbers of replicas aside), and no failure reported by Ray Serve. A sleeping model is
not probed, because a probe would wake it.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import text
from daybreak.api.llmservice.status import ModelState
from daybreak.api.ray.cache import CacheStatus
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.model_checks import Case, Judgement, check, starting
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.serve_problems import deployment_of, model_problem
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.views.ray_pods import PodView, accelerators
from daybreak.ray.views.ray_service_view import HEALTHY
from daybreak.scheduling.replica_size import pods_per_replica
from daybreak.scheduling.turn_words import waiting


@dataclass(frozen=True)
class ModelHealth:
    """Assessment of a model."""

    name: str
    state: ModelState
    answering: bool
    """True if requests to the model are answered, for a sleeping model after its wake."""
    ask: bool
    """True if the model must be probed now."""
    wait: timedelta | None
    """Time until the model may be probed. None if it may be probed now, or never."""
    replicas: int
    gpus: int
    pods: int
    """Number of worker pods that stay."""
    has_room: bool
    """True if as many of these pods as a replica needs are scheduled."""
    desired: int
    """Minimum number of replicas in the spec; 0 while the model sleeps."""
    queued: bool
    """True if the model creates no pods because other workloads are ahead in the accelerator queue."""
    in_line: bool
    """True if the model waits for accelerators that other workloads use or get before it. Either it is
    `queued`, or it is first in the queue and the scheduler has found no capacity for its pods."""
    placed: bool
    """True if one of the model's worker pods is scheduled."""
    answered: str | None
    problem: Problem | None
    errors_since: datetime | None
    """Time since which the model runs but answers only with errors. None if it does not."""
    doing: str
    """Progress for display; empty if the model has nothing to do."""
    cache: CacheStatus | None = None
    """Copy of the model's weights, if it has a cache."""


def judge(snapshot: Snapshot, model: Model) -> ModelHealth:
    """Assess one model."""
    group = names.worker_group(model.name)
    own = [pod for pod in snapshot.pods if pod.group == group]
    serving = snapshot.ray.active or snapshot.ray.pending
    here = [pod for pod in own if pod.cluster == serving and pod.counts]
    allowed = replica_range(snapshot.service.workload, model)
    problem = lasting(model_problem(snapshot.ray, own, model.name), snapshot.before.standing)
    if problem is None or not problem.stalled:
        problem = _still_crashing(snapshot, model, here) or problem or _tried_before(snapshot, model)
    case = Case(snapshot, model, here, problem)
    found = check(case)
    cache = snapshot.caches.get(model.name)
    if snapshot.waited_for or (cache is not None and not cache.complete):
        found = _held_back(snapshot, model, found, here)
        problem = found.problem or problem
    ready = sum(pod.ready for pod in here) // pods_per_replica(model)
    in_line = _in_line(snapshot, model.name, found, has_room=case.has_room)
    return ModelHealth(
        name=model.name,
        state=found.state,
        answering=found.answering,
        ask=found.ask,
        wait=found.wait,
        # A replica answers seconds before the kubelet's probe of its pods succeeds.
        replicas=max(ready, 1) if found.answering and case.has_room else ready,
        gpus=sum(accelerators(pod, model.accelerator.resource) for pod in own),
        pods=len(here),
        has_room=case.has_room,
        desired=0 if snapshot.sleeps(model.name) else allowed.min,
        queued=bool(snapshot.before_it(model.name)),
        in_line=in_line,
        placed=any(pod.placed for pod in here),
        answered=str(found.answered) if found.answered else None,
        problem=found.problem or problem or (snapshot.problem if found.state is ModelState.FAILED else None),
        errors_since=found.errors_since,
        doing=_filling(snapshot, model) or _doing(snapshot, model.name, found, here, in_line=in_line),
        cache=cache.status if cache is not None else None,
    )


def _held_back(snapshot: Snapshot, model: Model, found: Judgement, here: list[PodView]) -> Judgement:
    """Return the assessment while the RayService stays unchanged because weights are incomplete."""
    cache = snapshot.caches.get(model.name)
    own = cache is not None and not cache.complete
    problem = cache.problem if cache is not None else None
    if snapshot.sleeps(model.name) or found.answering:
        updating = own and found.state is ModelState.READY
        state = ModelState.UPDATING if updating else found.state
        return replace(found, state=state, problem=problem or found.problem)
    if not own and not snapshot.waking(model.name):
        return found
    state = starting(here, problem)
    return replace(found, state=state, ask=False, wait=None, problem=problem or found.problem)


def _filling(snapshot: Snapshot, model: Model) -> str:
    """Return the progress of incomplete weights for display; empty if the model waits for something else."""
    cache = snapshot.caches.get(model.name)
    if cache is not None and not cache.complete:
        return cache.doing
    waited_for = snapshot.waited_for
    if waited_for and not snapshot.sleeps(model.name) and not snapshot.ray.exists:
        return f"it waits until the weights of {', '.join(view.model for view in waited_for)} are available"
    return ""


def _still_crashing(snapshot: Snapshot, model: Model, here: list[PodView]) -> Problem | None:
    """Return the problem that ended the last worker pod, until the next one has become ready."""
    before = snapshot.before.models.get(model.name, {})
    if snapshot.before.standing != Reason.CONTAINER_CRASHING or before.get("state") != ModelState.FAILED:
        return None
    if before.get("reason") != Reason.CONTAINER_CRASHING or any(pod.ready for pod in here):
        return None
    return Problem(Reason.CONTAINER_CRASHING, text(before.get("message")), stalled=True)


def _tried_before(snapshot: Snapshot, model: Model) -> Problem | None:
    """Return the problem of the last failed replica while Serve starts the next one without a message."""
    deployment = deployment_of(snapshot.ray.coming_application, model.name)
    before = snapshot.before.models.get(model.name, {})
    if not snapshot.before.current or deployment is None or deployment.status == HEALTHY:
        return None
    tries_again = before.get("reason") == Reason.MODEL_FAILED and before.get("state") != ModelState.FAILED
    return Problem(Reason.MODEL_FAILED, text(before.get("message")), stalled=False) if tries_again else None


def _in_line(snapshot: Snapshot, model: str, found: Judgement, *, has_room: bool) -> bool:
    """Return True if other workloads are ahead of the model for longer than the operator's patience."""
    first = snapshot.turn(model).place and not found.answering and not has_room
    return bool(snapshot.before_it(model) or first)


def _doing(snapshot: Snapshot, model: str, found: Judgement, here: list[PodView], *, in_line: bool) -> str:
    ray, ready = snapshot.ray, any(pod.ready for pod in here)
    if in_line:
        return waiting(snapshot.before_it(model), snapshot.turn(model))
    deployment = deployment_of(ray.coming_application, model)
    healthy = deployment is not None and deployment.status == HEALTHY
    # During a wake, the probe waits until the engine runs, and Serve's report may be outdated.
    early = snapshot.waking(model) and not found.answering and not (healthy and ready)
    if (found.ask or found.wait is not None) and not early:
        return "it is being probed"
    match found.state:
        case ModelState.UPDATING:
            return "the new configuration is being rolled out"
        case _ if ray.leaving:
            return "its RayService is being deleted, and is recreated afterward"
        case ModelState.PENDING if not ray.coming:
            return (
                "KubeRay has not started its Ray cluster" if ray.exists else "its RayService is being created"
            )
        case ModelState.PENDING if ray.coming_application is None:
            return "its Ray cluster is starting"
        case ModelState.PENDING:
            return "it waits for a worker pod"
        case ModelState.STARTING if healthy and not early:
            return "it runs, and waits for the rest of the service"
        case ModelState.STARTING if ready:
            return "the engine is starting"
        case ModelState.STARTING if any(pod.placed for pod in here):
            return "its worker pod is starting"
        case ModelState.STARTING:
            return "its worker pod waits for a node"
        case ModelState.ASLEEP:
            return "it sleeps; a request wakes it"
    return ""
