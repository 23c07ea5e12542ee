"""The problem of a cluster without KubeRay, for kinds that create a RayService."""

from daybreak.api.common.conditions import Reason
from daybreak.problems.problem import Problem


def missing_kuberay(*, installed: bool) -> Problem | None:
    """Return the problem of an API server without RayServices, or None if it has them."""
    if installed:
        return None
    message = "the API server does not serve RayService (ray.io/v1): install KubeRay or its CRDs"
    return Problem(Reason.KUBERAY_NOT_INSTALLED, message, stalled=True)
