"""The Ray cluster to which requests go still, although KubeRay has switched to a second one.

KubeRay switches when Serve says that everything runs. That is no answer of a model yet, so gateways keep to
the first cluster, which is there for `rollout.drainTimeout`, until each model of the second has answered.
"""

from collections.abc import Iterable, Set

from daybreak.api.common.unstructured import at
from daybreak.api.gates.gate_state import GateState
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import RayView, by_name, never_served


def first_cluster(seen: Observed, ray: RayView) -> str:
    """Its name; empty: there is none, requests go to the one that KubeRay calls active."""
    if seen.gateway is None or seen.gateway.past or not ray.exists or ray.leaving or not ray.active:
        return ""
    there = by_name(each for each in seen.ray_clusters if not at(each, "metadata").get("deletionTimestamp"))
    others = (name for name in backends_before(seen.status) if name != ray.active)
    return next((name for name in others if name in there), "")


def serves_there(seen: Observed, first: str) -> bool:
    """Whether requests are let through to it."""
    return bool(first) and any(gate.state is GateState.OPEN for gate in seen.gates.values())


def given_up(seen: Observed, ray: RayView) -> Set[str]:
    """Ray clusters whose pods go as soon as another one comes up: nobody is, or was, sent there."""
    found = set(by_name(never_served(ray, seen.ray_clusters)))
    if not ray.active:
        return found
    return found | {ray.active if first_cluster(seen, ray) else ray.pending} - {""}


def still_go(seen: Observed, ray: RayView, pods: Iterable[PodView]) -> bool:
    """Whether worker pods are there of a Ray cluster that is given up, beside one that comes up."""
    gone = given_up(seen, ray) - {ray.pending}
    return any(pod.cluster in gone and pod.role != HEAD and pod.placed and not pod.over for pod in pods)
