"""What worker pods hold of accelerators, and for which of them the scheduler finds none."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from daybreak.api.common.unstructured import at, text
from daybreak.ray.views.ray_pods import PodView, accelerators, unschedulable


def held_by_node(pods: Iterable[PodView], resource: str) -> Mapping[str, int]:
    """Accelerators of a resource that pods hold, by the name of their node."""
    holds: Counter[str] = Counter()
    for pod in pods:
        if pod.placed:
            holds[text(at(pod.manifest, "spec").get("nodeName"))] += accelerators(pod, resource)
    return holds


def no_room_since(pods: Iterable[PodView]) -> datetime | None:
    """Since when the scheduler has found no room for one of the pods; None: it has, or has not looked.

    Those among them that are on their way out make room, and nobody else need to.
    """
    pods = list(pods)
    if any(pod.leaving and pod.placed for pod in pods):
        return None
    found = unschedulable(pods)
    return None if found is None else found[0]
