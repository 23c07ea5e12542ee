"""The state of each model, and whether it must be asked before anybody may rely on it.

A model that has answered is taken at that for as long as nothing happens that could have changed it: the
same Ray cluster, the same configuration (replica numbers aside), and Ray Serve never said that it failed.
A model that sleeps is not asked, for that would wake it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import parse_time, text
from daybreak.api.llmservice.status import ModelState
from daybreak.api.ray.cache import CacheStatus
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.redact import excerpt
from daybreak.problems.serve_problems import TRIES_AGAIN, deployment_of, model_problem
from daybreak.ray.serve.replica_range import ReplicaRange, replica_range
from daybreak.ray.views.ray_pods import PodView, accelerators
from daybreak.ray.views.ray_service_view import HEALTHY, RayView

SETTLE = timedelta(seconds=5)
"""How long after KubeRay has seen a change of configuration what Serve says still may be of before: KubeRay
reads Serve's state, then hands the change on, and looks again 2 seconds later."""

_UNDER_WAY = (ModelState.PENDING, ModelState.STARTING)
"""States of a model that Serve has not called healthy."""


@dataclass(frozen=True)
class Fingerprint:
    """As what a model has answered."""

    cluster: str
    configuration: str
    generation: int
    """Generation of the RayService at that time. Not part of the identity: it tells a change of numbers that
    came later from a change of configuration that was still on its way when the model was asked."""

    def __str__(self) -> str:
        return f"{self.cluster}/{self.configuration}/{self.generation}"

    @classmethod
    def parse(cls, written: str) -> "Fingerprint | None":
        """Read one back; None when it is none."""
        parts = written.split("/")
        if len(parts) != 3 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]))

    @classmethod
    def now(cls, ray: RayView) -> "Fingerprint":
        """What a model would answer as at present."""
        return cls(ray.active, ray.configuration, ray.generation)

    def same(self, other: "Fingerprint") -> bool:
        """Whether an answer as the one is worth as much as an answer as the other."""
        return self.cluster == other.cluster and self.configuration == other.configuration


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
    wanted: int
    """Fewest replicas that the spec asks for."""
    answered: str | None
    problem: Problem | None
    doing: str
    """What it is busy with, for people; empty when it has nothing to do."""
    cache: CacheStatus | None = None
    """The copy of its weights, where it has a cache."""


@dataclass(frozen=True)
class _Judgement:
    state: ModelState
    answered: Fingerprint | None
    answering: bool = False
    ask: bool = False
    wait: timedelta | None = None
    problem: Problem | None = None


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
    found = _judge(snapshot, model, allowed, here, problem)
    cache = snapshot.caches.get(model.name)
    if snapshot.filling:
        found = _held_back(snapshot, model, found, here)
        problem = found.problem or problem
    return ModelHealth(
        name=model.name,
        state=found.state,
        answering=found.answering,
        ask=found.ask,
        wait=found.wait,
        replicas=sum(pod.ready for pod in here),
        gpus=sum(accelerators(pod, model.accelerator.resource) for pod in own),
        pods=len(here),
        wanted=allowed.min,
        answered=str(found.answered) if found.answered else None,
        problem=found.problem or problem or (snapshot.problem if found.state is ModelState.FAILED else None),
        doing=_filling(snapshot, model) or _doing(snapshot, model.name, found, here),
        cache=cache.status if cache is not None else None,
    )


def _judge(
    snapshot: Snapshot, model: Model, allowed: ReplicaRange, here: list[PodView], problem: Problem | None
) -> _Judgement:
    ray, present = snapshot.ray, Fingerprint.now(snapshot.ray)
    before = Fingerprint.parse(text(snapshot.before.models.get(model.name, {}).get("answered")))
    proven = before is not None and before.same(present)
    asleep = allowed.min == 0 and not here

    if snapshot.asleep:
        # What it has answered as is forgotten: when it wakes, it must answer anew before it is relied on.
        return _Judgement(ModelState.ASLEEP, None)
    if not ray.active or not ray.ready:
        if proven and asleep:
            return _Judgement(ModelState.ASLEEP, before)
        return _Judgement(_starting(here, problem or snapshot.problem), None)

    if ray.upgrading:
        # Of the active cluster nothing is said any more; it goes on as it was.
        if before is not None and before.cluster == ray.active:
            return _Judgement(ModelState.ASLEEP if asleep else ModelState.READY, before, answering=True)
        return _Judgement(_starting(here, problem or snapshot.problem), before)

    application, deployment = ray.application, deployment_of(ray.application, model.name)
    if application is None or deployment is None:
        state = (
            ModelState.FAILED if snapshot.problem and snapshot.problem.stalled else _starting(here, problem)
        )
        return _Judgement(state, before if application is not None and application.failed else None)
    if application.failed:
        return _Judgement(ModelState.FAILED, before, problem=snapshot.problem)
    if deployment.failed:
        return _Judgement(ModelState.FAILED, None)

    if snapshot.waking and not proven:
        # A question waits in Serve until a replica can take it. To ask at once and to be answered is quicker
        # than to be told by KubeRay, and then to ask.
        return replace(_ask(snapshot, model, before, present), state=_starting(here, problem), problem=None)
    if application.settled and deployment.status == HEALTHY:
        if proven:
            return _Judgement(ModelState.ASLEEP if asleep else ModelState.READY, before, answering=True)
        if not ray.observed:
            return _Judgement(_changing(before), before)
        if asleep and allowed.initial == 0:
            # It is told to sleep from the beginning, so there is nothing to prove.
            return _Judgement(ModelState.ASLEEP, before, answering=True)
        return _ask(snapshot, model, before, present)

    if proven and before is not None and before.generation != ray.generation:
        # A change of numbers: the replicas that have answered stay.
        state = ModelState.READY if any(pod.ready for pod in here) else _waking(here)
        return _Judgement(state, before, answering=True)
    if proven and deployment.status not in ("UPDATING", HEALTHY):
        # Serve's own scaling, between the bounds.
        state = ModelState.READY if any(pod.ready for pod in here) else _waking(here)
        return _Judgement(state, before, answering=True)
    if proven and snapshot.before.models.get(model.name, {}).get("state") in _UNDER_WAY:
        # It answered while it woke, before Serve called it healthy: what KubeRay tells is of before that.
        return _Judgement(ModelState.STARTING, before, answering=True)
    if proven:
        return _Judgement(ModelState.STARTING, None)
    return _Judgement(_changing(before), before)


def _ask(snapshot: Snapshot, model: Model, before: Fingerprint | None, present: Fingerprint) -> _Judgement:
    """A model that Serve calls healthy, and that has not answered as what it is now."""
    state = _changing(before)
    wait = _unsettled(snapshot, before)
    if wait is not None:
        return _Judgement(state, before, wait=wait)
    answer = snapshot.answers.get(model.name)
    if answer is not None and answer.answered:
        return _Judgement(ModelState.READY, present, answering=True)
    if answer is not None:
        said = excerpt(answer.message) or "no answer came"
    else:
        # Being asked. What it last said stands until it says something else.
        said = snapshot.before.silence(model.name)
    problem = Problem(Reason.NOT_ANSWERING, said, stalled=False) if said else None
    return _Judgement(state, before, ask=True, problem=problem)


def _unsettled(snapshot: Snapshot, before: Fingerprint | None) -> timedelta | None:
    """How long what Serve says may still be of the configuration before; None when it is not."""
    if before is None or before.cluster != snapshot.ray.active:
        return None
    written = parse_time(snapshot.ray.last_update)
    if written is None:
        return None
    since = snapshot.now - written
    return SETTLE - since if timedelta(0) <= since < SETTLE else None


def _held_back(snapshot: Snapshot, model: Model, found: _Judgement, here: list[PodView]) -> _Judgement:
    """The same, while the RayService stays as it is because weights are not complete."""
    cache = snapshot.caches.get(model.name)
    own = cache is not None and not cache.complete
    problem = cache.problem if cache is not None else None
    if snapshot.asleep or found.answering:
        updating = own and found.state is ModelState.READY
        state = ModelState.UPDATING if updating else found.state
        return replace(found, state=state, problem=problem or found.problem)
    if not own and not snapshot.waking:
        return found
    state = _starting(here, problem)
    return replace(found, state=state, ask=False, wait=None, problem=problem or found.problem)


def _filling(snapshot: Snapshot, model: Model) -> str:
    """What is waited for where weights are not complete; empty when that is something else."""
    cache = snapshot.caches.get(model.name)
    if cache is not None and not cache.complete:
        return cache.doing
    if snapshot.filling and not snapshot.asleep and not snapshot.ray.exists:
        return f"it waits until the weights of {', '.join(view.model for view in snapshot.filling)} are there"
    return ""


def _starting(here: list[PodView], problem: Problem | None) -> ModelState:
    if problem is not None and problem.stalled:
        return ModelState.FAILED
    return ModelState.STARTING if here else ModelState.PENDING


def _changing(before: Fingerprint | None) -> ModelState:
    return ModelState.STARTING if before is None else ModelState.UPDATING


def _waking(here: list[PodView]) -> ModelState:
    return ModelState.STARTING if here else ModelState.ASLEEP


def _still_crashing(snapshot: Snapshot, model: Model, here: list[PodView]) -> Problem | None:
    """What ended the last worker pod, as long as the next one has not become ready."""
    before = snapshot.before.models.get(model.name, {})
    said = text(before.get("message"))
    if snapshot.before.standing != Reason.CONTAINER_CRASHING or before.get("state") != ModelState.FAILED:
        return None
    if not said or said.startswith("head: ") or any(pod.ready for pod in here):
        return None
    return Problem(Reason.CONTAINER_CRASHING, said, stalled=True)


def _tried_before(snapshot: Snapshot, model: Model) -> Problem | None:
    """Why the last replica failed to start, while Serve starts the next one and says nothing of it."""
    deployment = deployment_of(snapshot.ray.coming_application, model.name)
    said = text(snapshot.before.models.get(model.name, {}).get("message"))
    if not snapshot.before.current or deployment is None or deployment.status == HEALTHY:
        return None
    return Problem(Reason.MODEL_FAILED, said, stalled=False) if said.endswith(TRIES_AGAIN) else None


def _doing(snapshot: Snapshot, model: str, found: _Judgement, here: list[PodView]) -> str:
    ray, ready = snapshot.ray, any(pod.ready for pod in here)
    deployment = deployment_of(ray.coming_application, model)
    healthy = deployment is not None and deployment.status == HEALTHY
    # While it wakes, the question waits from the first moment, and what Serve says may be of before.
    early = snapshot.waking and found.ask and not (healthy and ready)
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
