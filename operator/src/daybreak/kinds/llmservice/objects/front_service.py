"""Service that clients use: one stable address in front of the gateway.

Without a gateway it leads to the active Ray cluster. If replicas span pods, not every pod has a Serve proxy,
so it leads to the head alone. KubeRay's Service is no replacement: it is created late and deleted with the
cluster.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.ray import network, ports
from daybreak.scheduling.replica_size import pods_per_replica

_NO_CLUSTER = ""
"""Cluster name that no pod has."""


def front_service(svc: LLMService, active_cluster: str | None, gateway_port: int | None) -> dict[str, Any]:
    """Return the front Service.

    The Service leads to the gateway's port for the service. Without a gateway it leads to the active cluster.
    Without an active cluster it selects no pod, and connections are refused.
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
