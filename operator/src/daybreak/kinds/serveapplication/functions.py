"""Decisions and status of a ServeApplication for the shared loop."""

from daybreak.api.serveapplication.resource import KIND
from daybreak.kinds.serveapplication.decide.rollout import course
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.status import report
from daybreak.problems.missing_kuberay import missing_kuberay
from daybreak.problems.problem import Problem
from daybreak.workloads.kind_functions import KindFunctions


def view_of(observed: Observed, blocked: Problem | None = None) -> View:
    """Return the view of an application; `blocked` is the problem that keeps its spec from being applied."""
    assert observed.subject is not None  # noqa: S101 - checked by the caller
    return View(observed, observed.subject, blocked)


def _hinders(observed: Observed) -> Problem | None:
    return missing_kuberay(installed=observed.kuberay_installed)


FUNCTIONS = KindFunctions(
    KIND,
    view_of,
    report.status,
    report.as_before,
    hinders=_hinders,
    course=course,
)
