"""How the shared loop decides on an LLMService, and describes it."""

from daybreak.api.common.conditions import Reason
from daybreak.api.llmservice.resource import KIND
from daybreak.kinds.llmservice.decide.rollout import course
from daybreak.kinds.llmservice.decide.view import view_of
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import report
from daybreak.problems.problem import Problem
from daybreak.workloads.ways import Ways


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
