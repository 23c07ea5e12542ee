"""What worker pods hold of accelerators, or of cores, and for which of them the scheduler finds none."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from daybreak.api.common.unstructured import at, text
from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.ray.views.ray_pods import HEAD, PodView, accelerators, requests_by_node, unschedulable
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import needs
from daybreak.scheduling.pod_priority import class_of
from daybreak.scheduling.replica_size import CORES, pods_awake, pods_per_replica, scarce_resource

_CORES_LACK = ("Insufficient cpu", "Insufficient memory")
"""How the scheduler says so."""


def held_by_node(pods: Iterable[PodView], model: Model) -> Mapping[str, int]:
    """Accelerators that pods of a model hold, by the name of their node. Of a claim all are held at once.
    Of a model without accelerators, how many pods stand there."""
    holds: Counter[str] = Counter()
    claim = model.accelerator.claim
    for pod in pods:
        if scarce_resource(model) == CORES:
            if pod.placed and pod.role != HEAD and not pod.over:
                holds[text(at(pod.manifest, "spec").get("nodeName"))] += 1
        elif pod.placed and claim is not None and pod.role != HEAD and not pod.over:
            holds[text(at(pod.manifest, "spec").get("nodeName"))] += claim.devices
        elif pod.placed and claim is None:
            held = accelerators(pod, model.accelerator.resource)
            holds[text(at(pod.manifest, "spec").get("nodeName"))] += held
    return holds


def no_room_since(pods: Iterable[PodView], model: Model | None = None) -> datetime | None:
    """Since when the scheduler has found no room for one of the pods; None: it has, or has not looked.

    Those among them that are on their way out make room, and nobody else need to.

    Args:
        pods: The pods.
        model: Whose pods they are. Of one without accelerators only a lack of cores or memory counts, by the
            scheduler's words: who sleeps for it gives back nothing else.
    """
    pods = list(pods)
    if any(pod.leaving and pod.placed for pod in pods):
        return None
    if model is not None and scarce_resource(model) == CORES:
        pods = [pod for pod in pods if _lacks_cores(pod)]
    found = unschedulable(pods)
    return None if found is None else found[0]


def _lacks_cores(pod: PodView) -> bool:
    found = unschedulable([pod])
    return found is not None and any(words in found[1] for words in _CORES_LACK)


def placed_pods(pods: Iterable[PodView]) -> int:
    """How many pods stand on nodes and stay there; a head is none of them."""
    return sum(pod.counts and pod.placed and pod.role != HEAD for pod in pods)


def with_pods(claim: Claim, workload: RayWorkload, model: Model, pods: Collection[PodView]) -> Claim:
    """A claim with what pods of a model ask for, what those give back that are there, and how many are not.

    Args:
        claim: What is known of it beside that.
        workload: Whose model it is.
        model: The model.
        pods: Those of its pods that have not ended.
    """
    there = placed_pods(pods)
    return replace(
        claim,
        priority_class=class_of(workload, model),
        needs=needs(model) if claim.waits else {},
        gives=requests_by_node(pod for pod in pods if pod.role != HEAD),
        lacks=max(0, pods_awake(workload, model) - there) if claim.waits else 0,
        first_lacks=max(0, pods_per_replica(model) - there) if claim.waits else 0,
    )
