"""Decisions and status of a ModelServer for the shared loop."""

from datetime import timedelta

from daybreak.api.common.conditions import Reason
from daybreak.api.modelserver.resource import KIND
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.kinds.modelserver.decide import autoscaling
from daybreak.kinds.modelserver.decide.rollout import course
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.status import report
from daybreak.problems.problem import Problem
from daybreak.workloads.kind_functions import KindFunctions


def view_of(observed: Observed, blocked: Problem | None = None) -> View:
    """Return the view of a server; `blocked` is the problem that keeps its spec from being applied."""
    assert observed.subject is not None  # noqa: S101 - checked by the caller
    return View(observed, observed.subject, blocked)


def _without_leader_worker_set(observed: Observed) -> Problem | None:
    several = any(each is not None and each.spec.nodes > 1 for each in (observed.subject, observed.target))
    if not several or observed.leader_worker_set_installed:
        return None
    message = (
        "spec.nodes: the API server knows no LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): install it, or "
        "leave nodes at 1"
    )
    return Problem(Reason.LEADER_WORKER_SET_NOT_INSTALLED, message, stalled=True)


def _look_again(view: View, status: ModelServerStatus) -> timedelta | None:
    return autoscaling.LOOK if status.autoscaling is not None and view.observed.gateway is not None else None


FUNCTIONS = KindFunctions(
    KIND,
    view_of,
    report.status,
    report.as_before,
    hinders=_without_leader_worker_set,
    course=course,
    look_again=_look_again,
)
