"""Replicas on several nodes: the pods that receive requests, and replicas recreated after a crash.

If one pod of a replica has restarted, LeaderWorkerSet deletes all of its pods and recreates them at once. No
pod backs off, and the last message is lost with its pod. Therefore the status keeps the message until a pod
answers.
"""

from collections.abc import Iterable, Sequence

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.modelserver.status import CrashStatus
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.problems.pod_problems import ended_by_itself
from daybreak.ray.views.ray_pods import PodView


def takes_requests(pod: PodView) -> bool:
    """Return True if a pod receives requests, unlike the workers of a replica on several nodes."""
    return _labels(pod).get(names.COMPONENT_LABEL) != names.SERVER_WORKER_COMPONENT


def crash(pods: Sequence[PodView], current: str, status: Manifest) -> CrashStatus | None:
    """Return the last replica that was recreated because a container had ended, or None if there is none.

    Args:
        pods: The server's pods.
        current: Digest of the current pod configuration. Pods of others are ignored.
        status: The previous status.
    """
    before = as_before(status)
    if before is not None and before.configuration_hash != current:
        before = None
    for leader in pods:
        uid = text(at(leader.manifest, "metadata").get("uid"))
        if not leader.leaving or not takes_requests(leader) or configuration(leader.manifest) != current:
            continue
        message = next(filter(None, map(ended_by_itself, _group(leader, pods))), "")
        if message and (before is None or before.group != uid):
            return CrashStatus(
                configuration_hash=current, group=uid, repeated=before is not None, message=message
            )
    return before


def as_before(status: Manifest) -> CrashStatus | None:
    """Return the crash in a status, or None if there is none."""
    found = at(status, "crash")
    if not found:
        return None
    return CrashStatus(
        configuration_hash=text(found.get("configurationHash")),
        group=text(found.get("group")),
        repeated=found.get("repeated") is True,
        message=text(found.get("message")),
    )


def _group(leader: PodView, pods: Iterable[PodView]) -> list[PodView]:
    """Return the terminating pods of a leader's replica."""
    index = _labels(leader).get(names.POD_GROUP_LABEL)
    return [pod for pod in pods if pod.leaving and _labels(pod).get(names.POD_GROUP_LABEL) == index]


def _labels(pod: PodView) -> Manifest:
    return at(pod.manifest, "metadata", "labels")
