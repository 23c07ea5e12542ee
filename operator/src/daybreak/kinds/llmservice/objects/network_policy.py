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
from daybreak.ray import ports
from daybreak.ray.egress import to_cluster

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERAY_LABELS = {"app.kubernetes.io/component": "kuberay-operator"}
"""On KubeRay's operator, however it was installed."""


def network_policy(svc: LLMService, platform: Platform, *, gateway: bool, direct: bool) -> dict[str, Any]:
    """The policy that closes the Ray ports of the service.

    Args:
        svc: The service.
        platform: Settings of the installation.
        gateway: Whether a gateway may send it requests.
        direct: Whether everybody may.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(svc, names.network_policy(svc.name), "ray"),
        "spec": {
            "podSelector": _own_pods(svc),
            "policyTypes": ["Ingress", "Egress"] if platform.ray_egress else ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": _own_pods(svc)}]},
                {"from": [_kuberay(platform)], "ports": [_port(ports.DASHBOARD), _port(ports.SERVE)]},
                *_probers(svc, platform, gateway, direct),
            ],
            **({"egress": _egress(svc, platform)} if platform.ray_egress else {}),
        },
    }


def _probers(svc: LLMService, platform: Platform, gateway: bool, direct: bool) -> list[dict[str, Any]]:
    """Who may send requests and read metrics: with a gateway, requests come through it alone."""
    found: list[dict[str, Any]] = []
    operator = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: platform.operator_namespace}},
        "podSelector": {"matchLabels": names.operator_selector()},
    }
    if any(model.cache is not None for model in svc.spec.models):
        found.append({"from": [operator], "ports": [_port(ports.FILL)]})
    if gateway:
        serving = [_port(ports.SERVE)]
        if svc.spec.runtime.direct_ingress:
            serving.append(_port(ports.DIRECT))
        through = {"podSelector": {"matchLabels": names.gateway_selector()}}
        found.append({"from": [through, operator], "ports": serving})
    for_all = [ports.SERVE, ports.METRICS] if direct else [ports.METRICS]
    return [*found, {"ports": [_port(port) for port in for_all]}]


def _egress(svc: LLMService, platform: Platform) -> list[dict[str, Any]]:
    """What the pods may reach: each other, what Ray's autoscaler needs, and what the installation says."""
    own: dict[str, Any] = {"to": [{"podSelector": _own_pods(svc)}]}
    return [own, *to_cluster(platform.api_server_ports), *(dict(rule) for rule in platform.ray_egress)]


def _own_pods(svc: LLMService) -> dict[str, Any]:
    return {"matchLabels": {names.SERVICE_LABEL: svc.name}}


def _kuberay(platform: Platform) -> dict[str, Any]:
    # A label alone opens nothing: whoever may make pods in a namespace of his own can write it there.
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: platform.kuberay_namespace}},
        "podSelector": {"matchLabels": dict(_KUBERAY_LABELS)},
    }


def _port(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
