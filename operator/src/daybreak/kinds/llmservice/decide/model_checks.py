"""How a model is, as a chain of checks: the first one that has an answer gives it.

The order matters: each check may rely on what those before it have ruled out.
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
"""How long after KubeRay has seen a change of configuration what Serve says still may be of before: KubeRay
reads Serve's state, then hands the change on, and looks again 2 seconds later."""


@dataclass(frozen=True)
class Judgement:
    """What is found of a model."""

    state: ModelState
    answered: Fingerprint | None
    """As what it has answered; None: that does not count any more."""
    answering: bool = False
    """Whether a request to it is answered."""
    ask: bool = False
    """Whether it must be asked now."""
    wait: timedelta | None = None
    """How long until it may be asked."""
    problem: Problem | None = None
    errors_since: datetime | None = None
    """Since when it has run, and answered with errors alone; None: it does not."""


@dataclass(frozen=True)
class Case:
    """A model, and what is seen of it."""

    snapshot: Snapshot
    model: Model
    pods: Sequence[PodView]
    """Its worker pods in the Ray cluster that serves, or is to serve."""
    problem: Problem | None
    """What keeps its pods or its engine from running."""

    @property
    def ray(self) -> RayView:
        """The RayService."""
        return self.snapshot.ray

    @property
    def present(self) -> Fingerprint:
        """As what it would answer now."""
        return Fingerprint.now(self.ray)

    @property
    def before(self) -> Fingerprint | None:
        """As what it has answered, by the status."""
        return Fingerprint.parse(text(self.said.get("probedConfigurationHash")))

    @property
    def said(self) -> Mapping[str, Any]:
        """What the status says of it."""
        return self.snapshot.before.models.get(self.model.name, {})

    @property
    def proven(self) -> bool:
        """Whether it has answered as what it is now."""
        return self.before is not None and self.before.same(self.present)

    @property
    def application(self) -> Application | None:
        """Serve's application in the active Ray cluster."""
        return self.ray.application

    @property
    def deployment(self) -> Deployment | None:
        """Its deployment in that application."""
        return deployment_of(self.application, self.model.name)

    @property
    def runs(self) -> bool:
        """Whether Serve says that it runs, as it is to be."""
        settled = self.application is not None and self.application.settled and self.ray.observed
        healthy = self.deployment is not None and self.deployment.status == HEALTHY
        return settled and healthy and any(pod.ready for pod in self.pods)

    @property
    def has_room(self) -> bool:
        """Whether as many of its pods as a replica needs stand on nodes."""
        return sum(pod.placed or pod.ready for pod in self.pods) >= pods_per_replica(self.model)

    @property
    def starting(self) -> ModelState:
        """Its state on the way up."""
        return starting(self.pods, self.problem)

    @property
    def starting_with_cluster(self) -> ModelState:
        """The same, as long as what keeps the whole Ray cluster down keeps it down too."""
        return starting(self.pods, self.problem or self.snapshot.problem)

    @property
    def changing(self) -> ModelState:
        """Its state until it has answered as what it is now."""
        return ModelState.STARTING if self.before is None else ModelState.UPDATING

    @property
    def scaling(self) -> ModelState:
        """Its state while Serve changes the number of replicas."""
        return ModelState.READY if any(pod.ready for pod in self.pods) else self.starting


Check = Callable[[Case], Judgement | None]


def asleep(case: Case) -> Judgement | None:
    """It sleeps. What it has answered as is forgotten: when it wakes, it must answer anew."""
    return Judgement(ModelState.ASLEEP, None) if case.snapshot.sleeps(case.model.name) else None


def without_cluster(case: Case) -> Judgement | None:
    """No Ray cluster serves yet."""
    if case.ray.active and case.ray.ready:
        return None
    return Judgement(case.starting_with_cluster, None)


def upgrading(case: Case) -> Judgement | None:
    """A second Ray cluster starts: of the active one nothing is said any more, and it goes on as it was."""
    if not case.ray.upgrading:
        return None
    if case.before is not None and case.before.cluster == case.ray.active:
        return Judgement(ModelState.READY, case.before, answering=True)
    return Judgement(case.starting_with_cluster, case.before)


def not_deployed(case: Case) -> Judgement | None:
    """Serve has no deployment of it."""
    if case.application is not None and case.deployment is not None:
        return None
    whole = case.snapshot.problem
    state = ModelState.FAILED if whole and whole.stalled else case.starting
    failed = case.application is not None and case.application.failed
    return Judgement(state, case.before if failed else None)


def application_failed(case: Case) -> Judgement | None:
    """Serve cannot deploy the application."""
    if case.application is None or not case.application.failed:
        return None
    return Judgement(ModelState.FAILED, case.before, problem=case.snapshot.problem)


def deployment_failed(case: Case) -> Judgement | None:
    """Serve has given its deployment up."""
    failed = case.deployment is not None and case.deployment.failed
    return Judgement(ModelState.FAILED, None) if failed else None


def asked_while_waking(case: Case) -> Judgement | None:
    """It wakes. A question waits in Serve until a replica can take it: to ask early and to be answered is
    quicker than to be told by KubeRay, and then to ask.

    Not before all pods of a replica have nodes, which may never come. Until then, no engine can answer: an
    answer would be one of a replica that ends.
    """
    if not case.snapshot.waking(case.model.name) or case.proven:
        return None
    if not case.has_room:
        return Judgement(case.starting, case.before)
    found = asked(case)
    # What comes before Serve says that it runs is of a server that starts.
    told = found.problem if found.errors_since is not None else None
    return replace(found, state=case.starting, problem=told)


def healthy(case: Case) -> Judgement | None:
    """Serve calls it healthy."""
    settled = case.application is not None and case.application.settled
    if not settled or case.deployment is None or case.deployment.status != HEALTHY:
        return None
    if case.proven:
        return Judgement(ModelState.READY, case.before, answering=True)
    if not case.ray.observed:
        return Judgement(case.changing, case.before)
    return asked(case)


def healthy_beside_others(case: Case) -> Judgement | None:
    """Serve calls it healthy, and is not done with the application: another model may wait long for
    accelerators, those of this one perhaps. It has answered as what it is now, so whatever Serve works on is
    not in it."""
    if not case.proven or case.deployment is None or case.deployment.status != HEALTHY:
        return None
    return Judgement(case.scaling, case.before, answering=True)


def numbers_changed(case: Case) -> Judgement | None:
    """Only the number of replicas changed: those that have answered stay."""
    if not case.proven or case.before is None or case.before.generation == case.ray.generation:
        return None
    return Judgement(case.scaling, case.before, answering=True)


def scaled_by_serve(case: Case) -> Judgement | None:
    """Serve scales it between its bounds."""
    if not case.proven or case.deployment is None or case.deployment.status == "UPDATING":
        return None
    return Judgement(case.scaling, case.before, answering=True)


def answered_early(case: Case) -> Judgement | None:
    """It answered while it woke, before Serve called it healthy: what KubeRay tells is of before that."""
    if not case.proven or case.said.get("state") not in (ModelState.PENDING, ModelState.STARTING):
        return None
    return Judgement(ModelState.STARTING, case.before, answering=True)


def restarting(case: Case) -> Judgement | None:
    """It has answered, and Serve has begun with it anew."""
    return Judgement(ModelState.STARTING, None) if case.proven else None


def changing(case: Case) -> Judgement:
    """It is on its way to what the spec says."""
    return Judgement(case.changing, case.before)


CHECKS: tuple[Check, ...] = (
    asleep,
    without_cluster,
    upgrading,
    not_deployed,
    application_failed,
    deployment_failed,
    asked_while_waking,
    healthy,
    healthy_beside_others,
    numbers_changed,
    scaled_by_serve,
    answered_early,
    restarting,
    changing,
)


def check(case: Case) -> Judgement:
    """What the first check says that has an answer; the last one always has."""
    return next(found for each in CHECKS if (found := each(case)) is not None)


def asked(case: Case) -> Judgement:
    """A model that has to answer, and has not answered as what it is now."""
    wait = _unsettled(case)
    if wait is not None:
        return Judgement(case.changing, case.before, wait=wait)
    answer = case.snapshot.answers.get(case.model.name)
    if answer is not None and answer.answered:
        return Judgement(ModelState.READY, case.present, answering=True)
    if answer is not None:
        said = excerpt(answer.message) or "no answer came"
    else:
        # Being asked. What it last said stands until it says something else.
        said = case.snapshot.before.silence(case.model.name)
    problem = Problem(Reason.PROBE_FAILED, said, stalled=False) if said else None
    return Judgement(
        case.changing, case.before, ask=True, problem=problem, errors_since=_errors_since(case, answer)
    )


def starting(pods: Sequence[PodView], problem: Problem | None) -> ModelState:
    """The state of a model on the way up."""
    if problem is not None and problem.stalled:
        return ModelState.FAILED
    return ModelState.STARTING if pods else ModelState.PENDING


def _errors_since(case: Case, answer: Answer | None) -> datetime | None:
    """Since when one that has not answered now has said nothing but errors; None: it says nothing, or does
    not run yet, which explains whatever it says."""
    if not case.runs or (answer is not None and not answer.erred):
        return None
    before = parse_time(text(case.said.get("errorsStartTime")))
    return before or (case.snapshot.now if answer is not None else None)


def _unsettled(case: Case) -> timedelta | None:
    """How long what Serve says may still be of the configuration before; None when it is not."""
    if case.before is None or case.before.cluster != case.ray.active:
        return None
    written = parse_time(case.ray.last_update)
    if written is None:
        return None
    since = case.snapshot.now - written
    return SETTLE - since if timedelta(0) <= since < SETTLE else None
