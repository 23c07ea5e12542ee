"""NetworkPolicy of the Ray pods, because access to Ray's ports allows running code in the pods.

The pods of a service reach each other on any port, because Ray picks many ports at random. From outside, the
policy allows requests, to Serve's proxies and to the direct port of each replica. It also allows metrics and,
for KubeRay's operator only, the dashboard's REST API. KubeRay's operator checks the health of the head's
Serve proxy in every reconcile, with a timeout of 2 s. It reconciles one RayService at a time, so a dropped
packet slows down all RayServices of the cluster. The installation sets the rules for outgoing traffic,
because weights may come from any host.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import network, ports


def network_policy(svc: LLMService, platform: Platform, *, gateway: bool, direct: bool) -> dict[str, Any]:
    """Return the policy that closes the Ray ports of the service.

    Args:
        svc: The service.
        platform: Settings of the installation.
        gateway: True if a gateway may send requests to the service.
        direct: True if all clients may send requests to the service.
    """
    own: dict[str, Any] = {"podSelector": network.own_pods(svc.name)}
    ingress = [
        {"from": [own]},
        {"from": [network.kuberay(platform)], "ports": network.tcp(ports.DASHBOARD, ports.SERVE)},
        *_probers(svc, platform, gateway, direct),
    ]
    egress: list[dict[str, Any]] = []
    if platform.ray_egress:
        # The pods need each other, the targets of Ray's autoscaler, and those that the installation allows.
        cluster = network.to_cluster(platform.api_server_ports)
        egress = [{"to": [own]}, *cluster, *map(dict, platform.ray_egress)]
    return network.policy(metadata(svc, names.network_policy(svc.name), "ray"), svc.name, ingress, egress)


def _probers(svc: LLMService, platform: Platform, gateway: bool, direct: bool) -> list[dict[str, Any]]:
    """Return the rules for requests and metrics: with a gateway, requests come only through it."""
    found: list[dict[str, Any]] = []
    operator = network.operator(platform)
    if any(model.cache is not None for model in svc.spec.models):
        found.append({"from": [operator], "ports": network.tcp(ports.FILL)})
    if gateway:
        serving = [ports.SERVE, ports.DIRECT] if svc.spec.runtime.direct_ingress else [ports.SERVE]
        found.append({"from": [network.gateways(), operator], "ports": network.tcp(*serving)})
    for_all = [ports.SERVE, ports.METRICS] if direct else [ports.METRICS]
    return [*found, {"ports": network.tcp(*for_all)}]
