"""How many worker pods a Ray cluster that runs may have: KubeRay does not carry a change of that into it."""

from collections import Counter
from collections.abc import Mapping

from daybreak.kinds.serveapplication.decide.view import View


def bounds(view: View) -> Mapping[str, tuple[int, int]]:
    """Fewest and most pods of each worker group of the cluster that takes requests, by the group's name.

    Pods that are there stay until they are idle: above the most, Ray's autoscaler stops one at once.
    """
    there = Counter(pod.group for pod in view.pods if pod.counts and pod.cluster == view.ray.active)
    return {
        group.name: (group.fewest, max(group.most, there[group.name])) for group in view.application.groups
    }
