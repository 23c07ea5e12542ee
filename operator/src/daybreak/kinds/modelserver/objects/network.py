"""Network access to the pods.

The Service is for clients, and the NetworkPolicy closes all other access.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import network


def front_service(server: ModelServer, gateway_port: int | None) -> dict[str, Any]:
    """Return the Service that clients use.

    The Service leads to the gateway's port for the server, or to the pods without a gateway.
    """
    to_pods = {**names.owner_labels(server.owner), names.COMPONENT_LABEL: names.SERVER_COMPONENT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(server, names.front_service(server.name), "front"),
        "spec": network.front(
            to_pods if gateway_port is None else names.gateway_selector(),
            server.profile.port if gateway_port is None else gateway_port,
        ),
    }


def network_policy(server: ModelServer, platform: Platform, *, gateway: bool) -> dict[str, Any]:
    """Return the NetworkPolicy of the pods.

    Requests may come only from the gateway and the operator; without a gateway, from all clients. Metrics
    collectors may reach the metrics port, which is usually the port for requests. Pods of a replica on
    several nodes reach each other on any port, because their communication library picks many at random.
    """
    rule: dict[str, Any] = {"ports": network.tcp(server.profile.port)}
    if gateway:
        rule = {"from": [network.gateways(), network.operator(platform)], **rule}
    rules, metrics = [rule], server.profile.metrics_at
    if metrics is not None and platform.engine_metrics_from:
        scrapers = list(map(dict, platform.engine_metrics_from))
        rules.append({"from": scrapers, "ports": network.tcp(metrics[0])})
    each_other: list[dict[str, Any]] = []
    if server.spec.nodes > 1:
        each_other = [{"podSelector": network.own_pods(server.owner)}]
        rules.append({"from": each_other})
    egress: list[dict[str, Any]] = []
    if platform.ray_egress:
        if each_other:
            egress.append({"to": each_other})
        egress += [*network.to_cluster(platform.api_server_ports), *map(dict, platform.ray_egress)]
    return network.policy(metadata(server, names.network_policy(server.owner)), server.owner, rules, egress)
