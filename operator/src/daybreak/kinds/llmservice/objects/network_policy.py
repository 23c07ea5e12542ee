"""The NetworkPolicy of the Ray pods: whoever reaches Ray's own ports can run code in the pods.

Among themselves the pods talk on any port (Ray picks many at random). From outside there are requests (by
Serve's proxies, and by the port that each replica has of its own), metrics and, for KubeRay's operator only,
the dashboard's REST API. It also asks the head's Serve proxy whether it is healthy, with a time-out of 2 s in
every reconcile, of which it does one at a time: a packet that is dropped there slows down all RayServices of
the cluster. Of outgoing traffic it says what the installation says: weights come from anywhere.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import network, ports


def network_policy(svc: LLMService, platform: Platform, *, gateway: bool, direct: bool) -> dict[str, Any]:
    """The policy that closes the Ray ports of the service.

    Args:
        svc: The service.
        platform: Settings of the installation.
        gateway: Whether a gateway may send it requests.
        direct: Whether everybody may.
    """
    own: dict[str, Any] = {"podSelector": network.own_pods(svc.name)}
    ingress = [
        {"from": [own]},
        {"from": [network.kuberay(platform)], "ports": network.tcp(ports.DASHBOARD, ports.SERVE)},
        *_probers(svc, platform, gateway, direct),
    ]
    egress: list[dict[str, Any]] = []
    if platform.ray_egress:
        # Each other, what Ray's autoscaler needs, and what the installation says.
        cluster = network.to_cluster(platform.api_server_ports)
        egress = [{"to": [own]}, *cluster, *map(dict, platform.ray_egress)]
    return network.policy(metadata(svc, names.network_policy(svc.name), "ray"), svc.name, ingress, egress)


def _probers(svc: LLMService, platform: Platform, gateway: bool, direct: bool) -> list[dict[str, Any]]:
    """Who may send requests and read metrics: with a gateway, requests come through it alone."""
    found: list[dict[str, Any]] = []
    operator = network.operator(platform)
    if any(model.cache is not None for model in svc.spec.models):
        found.append({"from": [operator], "ports": network.tcp(ports.FILL)})
    if gateway:
        serving = [ports.SERVE, ports.DIRECT] if svc.spec.runtime.direct_ingress else [ports.SERVE]
        found.append({"from": [network.gateways(), operator], "ports": network.tcp(*serving)})
    for_all = [ports.SERVE, ports.METRICS] if direct else [ports.METRICS]
    return [*found, {"ports": network.tcp(*for_all)}]
