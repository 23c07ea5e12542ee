"""How pods of ours are reached: Services, and NetworkPolicies that say by whom, and what pods reach."""

from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.platform import Platform

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERAY_LABELS = {"app.kubernetes.io/component": "kuberay-operator"}
"""On KubeRay's operator, however it was installed."""
Peer = dict[str, Any]
_HTTP_PORT = 80
"""Where clients ask."""


def front(selector: Mapping[str, str], target: int) -> dict[str, Any]:
    """The spec of a Service that clients use: one stable address, which leads to that port of those pods."""
    port = {
        "name": "http",
        "port": _HTTP_PORT,
        "targetPort": target,
        "protocol": "TCP",
        "appProtocol": "http",
    }
    return {
        "type": "ClusterIP",
        # An address of each family that the cluster has.
        "ipFamilyPolicy": "PreferDualStack",
        "selector": dict(selector),
        "ports": [port],
    }


def policy(
    metadata: Mapping[str, Any],
    owner: str,
    ingress: Sequence[Mapping[str, Any]],
    egress: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The policy of the pods of an owner.

    Args:
        metadata: The policy's own.
        owner: What stands for the owner in labels.
        ingress: Rules of who may come in.
        egress: Rules of what they may reach; none: everything.
    """
    spec: dict[str, Any] = {
        "podSelector": own_pods(owner),
        "policyTypes": ["Ingress", "Egress"] if egress else ["Ingress"],
        "ingress": list(ingress),
    }
    if egress:
        spec["egress"] = list(egress)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": dict(metadata),
        "spec": spec,
    }


def own_pods(owner: str) -> dict[str, Any]:
    """What the pods of an owner are selected by."""
    return {"matchLabels": names.owner_labels(owner)}


def operator(platform: Platform) -> Peer:
    """Daybreak's operator."""
    return _in_namespace(platform.operator_namespace, names.operator_selector())


def kuberay(platform: Platform) -> Peer:
    """KubeRay's operator."""
    return _in_namespace(platform.kuberay_namespace, _KUBERAY_LABELS)


def gateways() -> Peer:
    """The gateways of the pods' own namespace."""
    return {"podSelector": {"matchLabels": names.gateway_selector()}}


def tcp(*ports: int) -> list[dict[str, Any]]:
    """TCP ports."""
    return [{"protocol": "TCP", "port": port} for port in ports]


def to_cluster(api_server_ports: Sequence[int]) -> list[dict[str, Any]]:
    """DNS, and the API server.

    Neither has an address that a policy can name before it is known: any address, these ports.
    """
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return [{"ports": dns}, {"ports": tcp(*api_server_ports)}]


def _in_namespace(namespace: str, labels: Mapping[str, str]) -> Peer:
    # A label alone opens nothing: whoever may make pods in a namespace of his own can write it there.
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: namespace}},
        "podSelector": {"matchLabels": dict(labels)},
    }
