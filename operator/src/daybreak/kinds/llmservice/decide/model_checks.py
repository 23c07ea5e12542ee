"""Assessment of a model by a chain of checks: the first check with a result decides.

The order matters: each check may rely on the cases that the previous ones have excluded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import parse_time, text
from daybreak.api.llmservice.status import ModelState
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.problems.serve_problems import deployment_of
from daybreak.ray.views.ray_pods import PodView
from daybreak.ray.views.ray_service_view import HEALTHY, Application, Deployment, RayView
from daybreak.scheduling.replica_size import pods_per_replica
from daybreak.workloads.answer import Answer

SETTLE = timedelta(seconds=5)
"""Time after KubeRay has observed a change of configuration during which Serve's state may still be the
previous one. KubeRay reads Serve's state, then applies the change, and checks again 2 seconds later."""


@dataclass(frozen=True)
class Judgement:
    """Assessment of a model by a check."""

    state: ModelState
    answered: Fingerprint | None
    """State in which the model answered. None if that answer is no longer valid."""
    answering: bool = False
    """True if requests to the model are answered."""
    ask: bool = False
    """True if the model must be probed now."""
    wait: timedelta | None = None
    """Time until the model may be probed."""
    problem: Problem | None = None
    errors_since: datetime | None = None
    """Time since which the model runs but answers only with errors. None if it does not."""


@dataclass(frozen=True)
class Case:
    """Model and its observation, as the input of the checks."""

    snapshot: Snapshot
    model: Model
    pods: Sequence[PodView]
    """Worker pods of the model in the Ray cluster that serves or must serve."""
    problem: Problem | None
    """Problem that keeps the model's pods or engine from running."""

    @property
    def ray(self) -> RayView:
        """Return the RayService."""
        return self.snapshot.ray

    @property
    def present(self) -> Fingerprint:
        """Return the fingerprint of an answer in the current state."""
        return Fingerprint.now(self.ray)

    @property
    def before(self) -> Fingerprint | None:
        """Return the fingerprint of the last answer, as recorded in the status."""
        return Fingerprint.parse(text(self.message.get("probedConfiguration")))

    @property
    def message(self) -> Mapping[str, Any]:
        """Return the model's entry in the status."""
        return self.snapshot.before.models.get(self.model.name, {})

    @property
    def proven(self) -> bool:
        """Return True if the model has answered in its current state."""
        return self.before is not None and self.before.same(self.present)

    @property
    def application(self) -> Application | None:
        """Return Serve's application in the active Ray cluster."""
        return self.ray.application

    @property
    def deployment(self) -> Deployment | None:
        """Return the model's deployment in that application."""
        return deployment_of(self.application, self.model.name)

    @property
    def runs(self) -> bool:
        """Return True if Serve reports that the model runs in its desired configuration."""
        settled = self.application is not None and self.application.settled and self.ray.observed
        healthy = self.deployment is not None and self.deployment.status == HEALTHY
        return settled and healthy and any(pod.ready for pod in self.pods)

    @property
    def has_room(self) -> bool:
        """Return True if as many of the model's pods as a replica needs are scheduled."""
        return sum(pod.placed or pod.ready for pod in self.pods) >= pods_per_replica(self.model)

    @property
    def starting(self) -> ModelState:
        """Return the model's state while it starts."""
        return starting(self.pods, self.problem)

    @property
    def starting_with_cluster(self) -> ModelState:
        """Return the model's state while it starts, including a problem of the whole Ray cluster."""
        return starting(self.pods, self.problem or self.snapshot.problem)

    @property
    def changing(self) -> ModelState:
        """Return the model's state until it has answered in its current state."""
        return ModelState.STARTING if self.before is None else ModelState.UPDATING

    @property
    def scaling(self) -> ModelState:
        """Return the model's state while Serve changes the number of replicas."""
        return ModelState.READY if any(pod.ready for pod in self.pods) else self.starting


Check = Callable[[Case], Judgement | None]


def asleep(case: Case) -> Judgement | None:
    """Assess a sleeping model, and drop its last answer: after a wake it must answer again."""
    return Judgement(ModelState.ASLEEP, None) if case.snapshot.sleeps(case.model.name) else None


def without_cluster(case: Case) -> Judgement | None:
    """Assess a model if no Ray cluster serves yet."""
    if case.ray.active and case.ray.ready:
        return None
    return Judgement(case.starting_with_cluster, None)


def upgrading(case: Case) -> Judgement | None:
    """Assess a model while a second Ray cluster starts: if it answered in the active one, it stays ready.

    KubeRay no longer reports on the active cluster, which continues unchanged.
    """
    if not case.ray.upgrading:
        return None
    if case.before is not None and case.before.cluster == case.ray.active:
        return Judgement(ModelState.READY, case.before, answering=True)
    return Judgement(case.starting_with_cluster, case.before)


def not_deployed(case: Case) -> Judgement | None:
    """Assess a model for which Serve has no deployment."""
    if case.application is not None and case.deployment is not None:
        return None
    whole = case.snapshot.problem
    state = ModelState.FAILED if whole and whole.stalled else case.starting
    failed = case.application is not None and case.application.failed
    return Judgement(state, case.before if failed else None)


def application_failed(case: Case) -> Judgement | None:
    """Assess a model if Serve cannot deploy the application."""
    if case.application is None or not case.application.failed:
        return None
    return Judgement(ModelState.FAILED, case.before, problem=case.snapshot.problem)


def deployment_failed(case: Case) -> Judgement | None:
    """Assess a model whose deployment Serve has abandoned."""
    failed = case.deployment is not None and case.deployment.failed
    return Judgement(ModelState.FAILED, None) if failed else None


def assess_waking_model(case: Case) -> Judgement | None:
    """Assess a waking model, which is probed early.

    A probe waits in Serve until a replica can accept it. An early probe is answered sooner than a probe that
    follows KubeRay's report. No probe is sent before all pods of a replica have nodes, which may never
    happen. Until then, no engine can answer: an answer would be from a stopping replica.
    """
    if not case.snapshot.waking(case.model.name) or case.proven:
        return None
    if not case.has_room:
        return Judgement(case.starting, case.before)
    found = assess_answer(case)
    # Errors before Serve reports that the model runs are from a starting server.
    reported = found.problem if found.errors_since is not None else None
    return replace(found, state=case.starting, problem=reported)


def healthy(case: Case) -> Judgement | None:
    """Assess a model that Serve reports as healthy."""
    settled = case.application is not None and case.application.settled
    if not settled or case.deployment is None or case.deployment.status != HEALTHY:
        return None
    if case.proven:
        return Judgement(ModelState.READY, case.before, answering=True)
    if not case.ray.observed:
        return Judgement(case.changing, case.before)
    return assess_answer(case)


def healthy_beside_others(case: Case) -> Judgement | None:
    """Assess a healthy model while Serve has not finished the application.

    Another model may wait long for accelerators, perhaps for those of this model. This model has answered in
    its current state, so Serve's remaining work does not concern it.
    """
    if not case.proven or case.deployment is None or case.deployment.status != HEALTHY:
        return None
    return Judgement(case.scaling, case.before, answering=True)


def numbers_changed(case: Case) -> Judgement | None:
    """Assess a model if only its number of replicas changed: replicas that have answered stay."""
    if not case.proven or case.before is None or case.before.generation == case.ray.generation:
        return None
    return Judgement(case.scaling, case.before, answering=True)


def scaled_by_serve(case: Case) -> Judgement | None:
    """Assess a model that Serve scales between its bounds."""
    if not case.proven or case.deployment is None or case.deployment.status == "UPDATING":
        return None
    return Judgement(case.scaling, case.before, answering=True)


def answered_early(case: Case) -> Judgement | None:
    """Assess a model that answered during its wake, before Serve reported it as healthy.

    KubeRay's report is older than that answer.
    """
    if not case.proven or case.message.get("state") not in (ModelState.PENDING, ModelState.STARTING):
        return None
    return Judgement(ModelState.STARTING, case.before, answering=True)


def restarting(case: Case) -> Judgement | None:
    """Assess a model that has answered and that Serve has restarted."""
    return Judgement(ModelState.STARTING, None) if case.proven else None


def changing(case: Case) -> Judgement:
    """Assess a model that changes to the configuration in the spec."""
    return Judgement(case.changing, case.before)


CHECKS: tuple[Check, ...] = (
    asleep,
    without_cluster,
    upgrading,
    not_deployed,
    application_failed,
    deployment_failed,
    assess_waking_model,
    healthy,
    healthy_beside_others,
    numbers_changed,
    scaled_by_serve,
    answered_early,
    restarting,
    changing,
)


def check(case: Case) -> Judgement:
    """Return the assessment of the first check that has one; the last check always has one."""
    return next(found for each in CHECKS if (found := each(case)) is not None)


def assess_answer(case: Case) -> Judgement:
    """Assess a model that must answer, and has not answered in its current state."""
    wait = _unsettled(case)
    if wait is not None:
        return Judgement(case.changing, case.before, wait=wait)
    answer = case.snapshot.answers.get(case.model.name)
    if answer is not None and answer.answered:
        return Judgement(ModelState.READY, case.present, answering=True)
    if answer is not None:
        message = excerpt(answer.message) or "no answer came"
    else:
        # The probe is in progress: the previous message stays until the next answer.
        message = case.snapshot.before.silence(case.model.name)
    problem = Problem(Reason.PROBE_FAILED, message, stalled=False) if message else None
    return Judgement(
        case.changing, case.before, ask=True, problem=problem, errors_since=_errors_since(case, answer)
    )


def starting(pods: Sequence[PodView], problem: Problem | None) -> ModelState:
    """Return the state of a starting model."""
    if problem is not None and problem.stalled:
        return ModelState.FAILED
    return ModelState.STARTING if pods else ModelState.PENDING


def _errors_since(case: Case, answer: Answer | None) -> datetime | None:
    """Return the time since which a running model answers only with errors, or None if it does not.

    None is also returned before the model runs, because that explains every error.
    """
    if not case.runs or (answer is not None and not answer.erred):
        return None
    before = parse_time(text(case.message.get("errorsStartTime")))
    return before or (case.snapshot.now if answer is not None else None)


def _unsettled(case: Case) -> timedelta | None:
    """Return how long Serve's report may still be of the previous configuration, or None if it is not."""
    if case.before is None or case.before.cluster != case.ray.active:
        return None
    written = parse_time(case.ray.last_update)
    if written is None:
        return None
    since = case.snapshot.now - written
    return SETTLE - since if timedelta(0) <= since < SETTLE else None
