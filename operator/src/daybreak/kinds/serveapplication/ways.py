"""How the shared loop decides on a ServeApplication, and describes it."""

from daybreak.api.common.conditions import Reason
from daybreak.api.serveapplication.resource import KIND
from daybreak.kinds.serveapplication.decide.rollout import course
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.status import report
from daybreak.problems.problem import Problem
from daybreak.workloads.ways import Ways


def view_of(seen: Observed, blocked: Problem | None = None) -> View:
    """How one is, that can be read; `blocked` keeps its spec from being applied."""
    assert seen.subject is not None  # noqa: S101 - checked by whoever decides
    return View(seen, seen.subject, blocked)


def _without_kuberay(seen: Observed) -> Problem | None:
    if seen.kuberay_installed:
        return None
    said = "the API server knows no RayService (ray.io/v1): install KubeRay, or its CRDs"
    return Problem(Reason.KUBERAY_MISSING, said, stalled=True)


WAYS = Ways(
    KIND,
    view_of,
    report.status,
    report.as_before,
    hinders=_without_kuberay,
    course=course,
)
