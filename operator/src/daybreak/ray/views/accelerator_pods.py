"""Accelerators or CPUs that worker pods use, and worker pods that cannot be scheduled."""

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
"""Messages of the scheduler about missing CPUs or memory."""


def held_by_node(pods: Iterable[PodView], model: Model) -> Mapping[str, int]:
    """Return the number of accelerators that pods of a model use, by node name.

    All devices of a ResourceClaim are in use at once. For a model without accelerators, return the number of
    pods.
    """
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
    """Return the time since which one of the pods is unschedulable, or None if there is no such pod.

    A pod that the scheduler has not processed yet does not count. If one of the pods is in deletion on a
    node, the result is None. That pod frees capacity, so no other model must yield.

    Args:
        pods: The pods.
        model: Model of the pods. For a model without accelerators, only missing CPUs or memory in the
            scheduler's message count, because a model that sleeps for it releases nothing else.
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
    """Return the number of pods that run on nodes and are not in deletion, without a head."""
    return sum(pod.counts and pod.placed and pod.role != HEAD for pod in pods)


def with_pods(claim: Claim, workload: RayWorkload, model: Model, pods: Collection[PodView]) -> Claim:
    """Return a claim with the facts about a model's pods.

    These are the pods' requests, the resources that existing pods release, and the number of missing pods.

    Args:
        claim: Claim without the facts about pods.
        workload: Workload of the model.
        model: The model.
        pods: Pods of the model that have not ended.
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
