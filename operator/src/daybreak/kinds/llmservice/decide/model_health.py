"""The state of each model, and whether it must be asked before anybody may rely on it.

A model that has answered is taken at that for as long as nothing happens that could have changed it: the
same Ray cluster, the same configuration (replica numbers aside), and Ray Serve never said that it failed.
A model that sleeps is not asked, for that would wake it.
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
    """A model, judged."""

    name: str
    state: ModelState
    answering: bool
    """Whether a request to it is answered (after it has woken, where it sleeps)."""
    ask: bool
    """Whether it must be asked now."""
    wait: timedelta | None
    """How long until it may be asked; None when that is now, or never."""
    replicas: int
    gpus: int
    pods: int
    """Worker pods that are there to stay."""
    has_room: bool
    """Whether as many of them as a replica needs stand on nodes."""
    wanted: int
    """Fewest replicas that the spec asks for."""
    queued: bool
    """Whether it makes no pods, since others come before it."""
    in_line: bool
    """Whether it waits for accelerators that others hold, or want before it: as one of `queued`, or as the
    first one, whose pods the scheduler has found no room for."""
    placed: bool
    """Whether one of its worker pods stands on a node."""
    answered: str | None
    problem: Problem | None
    errors_since: datetime | None
    """Since when it has run, and answered with errors alone; None: it does not."""
    doing: str
    """What it is busy with, for people; empty when it has nothing to do."""
    cache: CacheStatus | None = None
    """The copy of its weights, where it has a cache."""


def judge(snapshot: Snapshot, model: Model) -> ModelHealth:
    """Judge one model."""
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
        # What answers is a replica, seconds before the kubelet's probe of its pods says so.
        replicas=max(ready, 1) if found.answering and case.has_room else ready,
        gpus=sum(accelerators(pod, model.accelerator.resource) for pod in own),
        pods=len(here),
        has_room=case.has_room,
        wanted=0 if snapshot.sleeps(model.name) else allowed.min,
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
    """The same, while the RayService stays as it is because weights are not complete."""
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
    """What is waited for where weights are not complete; empty when that is something else."""
    cache = snapshot.caches.get(model.name)
    if cache is not None and not cache.complete:
        return cache.doing
    waited_for = snapshot.waited_for
    if waited_for and not snapshot.sleeps(model.name) and not snapshot.ray.exists:
        return f"it waits until the weights of {', '.join(view.model for view in waited_for)} are there"
    return ""


def _still_crashing(snapshot: Snapshot, model: Model, here: list[PodView]) -> Problem | None:
    """What ended the last worker pod, as long as the next one has not become ready."""
    before = snapshot.before.models.get(model.name, {})
    if snapshot.before.standing != Reason.CONTAINER_CRASHING or before.get("state") != ModelState.FAILED:
        return None
    if before.get("reason") != Reason.CONTAINER_CRASHING or any(pod.ready for pod in here):
        return None
    return Problem(Reason.CONTAINER_CRASHING, text(before.get("message")), stalled=True)


def _tried_before(snapshot: Snapshot, model: Model) -> Problem | None:
    """Why the last replica failed to start, while Serve starts the next one and says nothing of it."""
    deployment = deployment_of(snapshot.ray.coming_application, model.name)
    before = snapshot.before.models.get(model.name, {})
    if not snapshot.before.current or deployment is None or deployment.status == HEALTHY:
        return None
    tries_again = before.get("reason") == Reason.MODEL_FAILED and before.get("state") != ModelState.FAILED
    return Problem(Reason.MODEL_FAILED, text(before.get("message")), stalled=False) if tries_again else None


def _in_line(snapshot: Snapshot, model: str, found: Judgement, *, has_room: bool) -> bool:
    """Whether others have to go before its pods have room, for longer than the operator's patience."""
    first = snapshot.turn(model).place and not found.answering and not has_room
    return bool(snapshot.before_it(model) or first)


def _doing(snapshot: Snapshot, model: str, found: Judgement, here: list[PodView], *, in_line: bool) -> str:
    ray, ready = snapshot.ray, any(pod.ready for pod in here)
    if in_line:
        return waiting(snapshot.before_it(model), snapshot.turn(model))
    deployment = deployment_of(ray.coming_application, model)
    healthy = deployment is not None and deployment.status == HEALTHY
    # While it wakes, the question waits until the engine runs, and what Serve says may be of before.
    early = snapshot.waking(model) and not found.answering and not (healthy and ready)
    if (found.ask or found.wait is not None) and not early:
        return "it is being asked for an answer"
    match found.state:
        case ModelState.UPDATING:
            return "the new configuration is being rolled out"
        case _ if ray.leaving:
            return "its RayService is being deleted, and made anew when it is gone"
        case ModelState.PENDING if not ray.coming:
            return (
                "KubeRay has not begun with its Ray cluster" if ray.exists else "its RayService is being made"
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
