"""Ray cluster that still receives the requests although KubeRay has switched to a second one.

KubeRay switches when Serve reports that everything runs. That is not yet an answer of a model. Therefore
gateways keep the first cluster until each model of the second one has answered. The first cluster exists for
`rollout.drainTimeout`.
"""

from collections.abc import Iterable, Set

from daybreak.api.common.unstructured import at
from daybreak.api.gates.gate_state import GateState
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import RayView, by_name, never_served


def first_cluster(observed: Observed, ray: RayView) -> str:
    """Return the name of the first cluster; empty if requests go to the cluster that KubeRay calls active."""
    if observed.gateway is None or observed.gateway.past or not ray.exists or ray.leaving or not ray.active:
        return ""
    there = by_name(
        each for each in observed.ray_clusters if not at(each, "metadata").get("deletionTimestamp")
    )
    others = (name for name in backends_before(observed.status) if name != ray.active)
    return next((name for name in others if name in there), "")


def serves_there(observed: Observed, first: str) -> bool:
    """Return True if gates forward requests to the first cluster."""
    return bool(first) and any(gate.state is GateState.OPEN for gate in observed.gates.values())


def given_up(observed: Observed, ray: RayView) -> Set[str]:
    """Return the Ray clusters without requests, now or before: their pods go when another one comes up."""
    found = set(by_name(never_served(ray, observed.ray_clusters)))
    if not ray.active:
        return found
    return found | {ray.active if first_cluster(observed, ray) else ray.pending} - {""}


def still_go(observed: Observed, ray: RayView, pods: Iterable[PodView]) -> bool:
    """Return True if an abandoned Ray cluster still has worker pods while another one comes up."""
    gone = given_up(observed, ray) - {ray.pending}
    return any(pod.cluster in gone and pod.role != HEAD and pod.placed and not pod.over for pod in pods)
