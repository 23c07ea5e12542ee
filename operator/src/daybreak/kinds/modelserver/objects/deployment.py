"""Deployment of the pods, or LeaderWorkerSet if a replica has several nodes; without pods in sleep."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.unstructured import at, mappings, text, whole
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.kinds.modelserver.objects import pods
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.kinds.modelserver.objects.revisions import content
from daybreak.platform import Platform
from daybreak.ray.network import own_pods

UNPROVEN_SECONDS = 365 * 24 * 3600
"""Time in seconds that a pod must be ready to replace another one, while no pod like it has answered."""
_NO_DEADLINE = 2**31 - 1
"""Kubernetes' value for no deadline. A change has its own deadline, which lasts until the first answer."""
# A replica stops only when its replacement is ready and proven, so that each request finds a replica.
_SURGE = {"maxSurge": 1, "maxUnavailable": 0}


def deployment(
    server: ModelServer, platform: Platform, replicas: int, *, unproven: bool = False
) -> dict[str, Any]:
    """Return the Deployment or LeaderWorkerSet with the given number of replicas.

    With `unproven`, no running pod is replaced by a new one, even a ready one, before the new pod has
    answered. A replica on several nodes is never added alongside others (`rollout.strategy`), so `unproven`
    has no effect there.
    """
    found = metadata(server, names.server_deployment(server.name))
    found["annotations"] = {names.WISHES_ANNOTATION: wishes(server)}
    if server.spec.nodes > 1:
        return _leader_worker_set(server, platform, replicas, found)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": found,
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": _NO_DEADLINE,
            **({"minReadySeconds": UNPROVEN_SECONDS} if unproven else {}),
            "selector": own_pods(server.owner),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": dict(_SURGE)},
            "template": pods.template(server, platform),
        },
    }


def _leader_worker_set(
    server: ModelServer, platform: Platform, replicas: int, found: dict[str, Any]
) -> dict[str, Any]:
    leader, worker = pods.group(server, platform)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": found,
        "spec": {
            "replicas": replicas,
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": dict(_SURGE)},
            # The leader's engine answers when its workers have joined: they must not wait for its readiness.
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": server.spec.nodes,
                # The pods of a group start together: a new pod cannot join a group whose other pods have
                # proceeded.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def wishes(server: ModelServer) -> str:
    """Return a digest of the part of the spec that shapes the pods."""
    return digest(content(server))


def listens(deployment: Mapping[str, Any]) -> tuple[int, str]:
    """Return the port and path of the engine's readiness probe."""
    for each in mappings(at(_template(deployment), "spec").get("containers")):
        if each.get("name") == ENGINE_CONTAINER:
            requested = at(each, "readinessProbe", "httpGet")
            return whole(requested.get("port")), text(requested.get("path"))
    return 0, ""


def with_pods_of(desired: dict[str, Any], live: Mapping[str, Any]) -> None:
    """Keep the live pod template in a desired object."""
    for field in ("template", "leaderWorkerTemplate"):
        if field in desired["spec"]:
            desired["spec"][field] = live["spec"][field]


def configuration(deployment_or_pod: Mapping[str, Any] | None) -> str:
    """Return the configuration digest of a Deployment, LeaderWorkerSet or pod; empty if there is none."""
    found = at(_template(deployment_or_pod), "metadata", "labels") or at(
        deployment_or_pod, "metadata", "labels"
    )
    return text(found.get(names.CONFIGURATION_LABEL))


def _template(deployment: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the template of the pods that receive requests."""
    return at(deployment, "spec", "template") or at(
        deployment, "spec", "leaderWorkerTemplate", "leaderTemplate"
    )
