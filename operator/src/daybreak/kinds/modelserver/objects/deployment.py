"""What makes the pods, none of them in sleep: a Deployment, or a LeaderWorkerSet where a replica has several
nodes."""

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
"""How long a pod must be ready to take the place of another one, while nothing like it has answered."""
_NO_DEADLINE = 2**31 - 1
"""Kubernetes' number for none: a change has its own, which lasts until the first answer."""
# A replica goes when one in its place is ready, and proven: no request finds nobody.
_SURGE = {"maxSurge": 1, "maxUnavailable": 0}


def deployment(
    server: ModelServer, platform: Platform, replicas: int, *, unproven: bool = False
) -> dict[str, Any]:
    """What makes the pods of so many replicas.

    `unproven`: no pod of those that run goes for a new one, be it ready, before it is known to answer. Of
    replicas on several nodes none comes beside others (`rollout.strategy`), so it means nothing there.
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
                # What computes together begins together: nobody joins a group whose others have gone on.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def wishes(server: ModelServer) -> str:
    """Digest of what the spec says of the pods."""
    return digest(content(server))


def listens(deployment: Mapping[str, Any]) -> tuple[int, str]:
    """Port and path at which the engine of its pods is asked whether it is ready."""
    for each in mappings(at(_template(deployment), "spec").get("containers")):
        if each.get("name") == ENGINE_CONTAINER:
            asked = at(each, "readinessProbe", "httpGet")
            return whole(asked.get("port")), text(asked.get("path"))
    return 0, ""


def with_pods_of(wanted: dict[str, Any], live: Mapping[str, Any]) -> None:
    """Leave the pods of what is wanted as they are."""
    for field in ("template", "leaderWorkerTemplate"):
        if field in wanted["spec"]:
            wanted["spec"][field] = live["spec"][field]


def configuration(deployment_or_pod: Mapping[str, Any] | None) -> str:
    """Digest of what a Deployment's or LeaderWorkerSet's pods run, or a pod; empty: of none."""
    found = at(_template(deployment_or_pod), "metadata", "labels") or at(
        deployment_or_pod, "metadata", "labels"
    )
    return text(found.get(names.CONFIGURATION_LABEL))


def _template(deployment: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Template of the pods that take requests."""
    return at(deployment, "spec", "template") or at(
        deployment, "spec", "leaderWorkerTemplate", "leaderTemplate"
    )
