"""What leads to the pods: the Service that clients use, and the NetworkPolicy that closes all other ways."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import network


def front_service(server: ModelServer, gateway_port: int | None) -> dict[str, Any]:
    """The Service that clients use.

    It leads to the gateway's port for the server, or without a gateway to the pods.
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
    """The policy: requests come from the gateway and the operator only; without a gateway from anywhere. Who
    collects metrics reaches the port that they are at, which is mostly that of requests. Pods of a replica on
    several nodes reach each other on any port: what they compute with picks many at random."""
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
