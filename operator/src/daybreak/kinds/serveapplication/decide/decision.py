"""What to do next about a ServeApplication, and what to say of it: a pure function of what is seen."""

from daybreak.api.common.conditions import Reason
from daybreak.api.serveapplication.resource import KIND
from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.kinds.serveapplication.decide.rollout import rolled
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.observe.observed import Observed
from daybreak.kinds.serveapplication.status import report
from daybreak.problems.problem import Problem
from daybreak.workloads import decision

Decision = decision.Decision[ServeApplicationStatus]


def decide(seen: Observed) -> Decision:
    """Decide on a ServeApplication."""
    return decision.decide(seen, _WAYS)


def view_of(seen: Observed) -> View:
    """How one is, that can be read."""
    assert seen.subject is not None  # noqa: S101 - checked by whoever decides
    return View(seen, seen.subject)


def _without_kuberay(seen: Observed) -> Problem | None:
    if seen.kuberay_installed:
        return None
    said = "the API server knows no RayService (ray.io/v1): install KubeRay, or its CRDs"
    return Problem(Reason.KUBERAY_MISSING, said, stalled=True)


_WAYS = decision.Ways(KIND, view_of, report.status, report.as_before, hinders=_without_kuberay, rolled=rolled)
