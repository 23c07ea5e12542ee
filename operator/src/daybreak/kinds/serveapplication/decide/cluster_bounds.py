"""How many worker pods a Ray cluster may have: KubeRay does not carry a change of that into one that runs."""

from collections import Counter

from daybreak.api.gates.sleep import SleepDepth
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.objects.groups import fewest_pods, most_pods
from daybreak.ray.views.ray_service_view import Bounds


def cluster_bounds(view: View) -> dict[str, Bounds]:
    """Bounds for the Ray cluster that takes requests, while it is alone; by its name.

    Pods that are there stay until they are idle: above the most, Ray's autoscaler stops one at once. Where
    the workers are given back there is to be none, in a cluster that comes up neither.
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
