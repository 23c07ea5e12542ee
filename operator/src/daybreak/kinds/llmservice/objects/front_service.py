"""The Service that clients use: one stable address in front of the gateway.

Without a gateway it leads to whichever Ray cluster is active: to its head alone where replicas span pods, of
which not every one has a Serve proxy. KubeRay makes a Service of its own, which comes
late and goes with the cluster.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.ray import network, ports
from daybreak.scheduling.replica_size import pods_per_replica

_NO_CLUSTER = ""
"""No pod bears this as its cluster's name."""


def front_service(svc: LLMService, active_cluster: str | None, gateway_port: int | None) -> dict[str, Any]:
    """The front Service.

    It leads to the gateway's port for the service. Without a gateway it leads to the active cluster; without
    that it selects no pod, and connections are refused.
    """
    to_ray = {names.RAY_CLUSTER_LABEL: active_cluster or _NO_CLUSTER, names.RAY_SERVE_LABEL: "true"}
    if any(pods_per_replica(model) > 1 for model in svc.spec.models):
        to_ray[names.RAY_NODE_TYPE_LABEL] = "head"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(svc, names.front_service(svc.name), "front"),
        "spec": network.front(
            to_ray if gateway_port is None else names.gateway_selector(),
            ports.SERVE if gateway_port is None else gateway_port,
        ),
    }
