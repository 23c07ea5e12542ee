"""How many worker pods a Ray cluster may have: KubeRay does not carry a change of that into one that runs."""

from collections import Counter

from daybreak.api.gates.sleep import SleepDepth
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.ray.views.ray_service_view import Bounds


def cluster_bounds(view: View) -> dict[str, Bounds]:
    """Bounds for the Ray cluster that takes requests, while it is alone; by its name.

    Pods that are there stay until they are idle: above the most, Ray's autoscaler stops one at once. Where
    the workers are given back there is to be none, in a cluster that comes up neither.
    """
    ray = view.ray
    if view.given_back is SleepDepth.WORKERS:
        none = {group.name: (0, 0) for group in view.application.groups}
        return {name: none for name in (ray.active, ray.pending) if name}
    if view.given_back is not None or not ray.active or ray.upgrading:
        return {}
    there = Counter(pod.group for pod in view.pods if pod.counts and pod.cluster == ray.active)
    bounds = {
        group.name: (group.fewest, max(group.most, there[group.name])) for group in view.application.groups
    }
    return {ray.active: bounds}
