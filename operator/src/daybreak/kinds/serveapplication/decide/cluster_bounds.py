"""Bounds on worker pods of a Ray cluster: KubeRay does not apply a change of them to a running cluster."""

from collections import Counter

from daybreak.api.gates.sleep import SleepDepth
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.groups import fewest_pods, most_pods
from daybreak.ray.views.ray_service_view import Bounds


def cluster_bounds(view: View) -> dict[str, Bounds]:
    """Return the bounds of the Ray cluster that receives requests, by its name, or none during an upgrade.

    Existing pods stay until they are idle: above the maximum, Ray's autoscaler stops a pod at once. If the
    workers are released, the maximum is 0, also in a cluster that comes up.
    """
    ray = view.ray
    most = most_pods(view.application)
    if view.given_back is SleepDepth.WORKERS:
        none = dict.fromkeys(most, (0, 0))
        return {name: none for name in (ray.active, ray.pending) if name}
    if view.given_back is not None or not ray.active or ray.upgrading:
        return {}
    there = Counter(pod.group for pod in view.pods if pod.counts and pod.cluster == ray.active)
    fewest = fewest_pods(view.application)
    return {ray.active: {name: (fewest[name], max(most[name], there[name])) for name in most}}
