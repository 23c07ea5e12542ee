"""Network access to the Ray pods.

The Service is for clients, and the NetworkPolicy closes all other access.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import network, ports

_HEAD = "head"


def front_service(application: ServeApplication, gateway_port: int | None) -> dict[str, Any]:
    """Return the Service that clients use: to the gateway's port, or to the Ray head without a gateway."""
    to_head = {**names.owner_labels(application.owner), names.RAY_NODE_TYPE_LABEL: _HEAD}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(application, names.front_service(application.name), "front"),
        "spec": network.front(
            to_head if gateway_port is None else names.gateway_selector(),
            ports.SERVE if gateway_port is None else gateway_port,
        ),
    }


def network_policy(application: ServeApplication, platform: Platform, *, gateway: bool) -> dict[str, Any]:
    """Return the NetworkPolicy of the Ray pods.

    The pods reach each other on any port. Requests come only from the gateway; without a gateway, from all
    clients. KubeRay sends Serve its configuration. Metrics are open.
    """
    own: dict[str, Any] = {"podSelector": network.own_pods(application.owner)}
    requests: dict[str, Any] = {"ports": network.tcp(ports.SERVE)}
    if gateway:
        requests = {"from": [network.gateways()], **requests}
    ingress = [
        {"from": [own]},
        {"from": [network.kuberay(platform)], "ports": network.tcp(ports.DASHBOARD, ports.SERVE)},
        requests,
        {"ports": network.tcp(ports.METRICS)},
    ]
    egress: list[dict[str, Any]] = []
    if platform.ray_egress:
        cluster = network.to_cluster(platform.api_server_ports)
        egress = [{"to": [own]}, *cluster, *map(dict, platform.ray_egress)]
    name = names.network_policy(application.owner)
    return network.policy(metadata(application, name), application.owner, ingress, egress)
