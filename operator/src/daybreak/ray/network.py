"""Services for Daybreak's pods, and NetworkPolicies for their ingress and egress."""

from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.platform import Platform

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERAY_LABELS = {"app.kubernetes.io/component": "kuberay-operator"}
"""Labels of KubeRay's operator in every kind of installation."""
Peer = dict[str, Any]
_HTTP_PORT = 80
"""Port for clients."""


def front(selector: Mapping[str, str], target: int) -> dict[str, Any]:
    """Return the spec of a Service for clients: one stable address for a port of the selected pods."""
    port = {
        "name": "http",
        "port": _HTTP_PORT,
        "targetPort": target,
        "protocol": "TCP",
        "appProtocol": "http",
    }
    return {
        "type": "ClusterIP",
        # One address of each IP family of the cluster.
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
    """Return the NetworkPolicy for the pods of an owner.

    Args:
        metadata: Metadata of the policy.
        owner: Owner label of the pods.
        ingress: Rules for permitted sources.
        egress: Rules for permitted targets; if empty, all targets are permitted.
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
    """Return the selector for the pods of an owner."""
    return {"matchLabels": names.owner_labels(owner)}


def operator(platform: Platform) -> Peer:
    """Return the peer for Daybreak's operator."""
    return _in_namespace(platform.operator_namespace, names.operator_selector())


def kuberay(platform: Platform) -> Peer:
    """Return the peer for KubeRay's operator."""
    return _in_namespace(platform.kuberay_namespace, _KUBERAY_LABELS)


def gateways() -> Peer:
    """Return the peer for the gateways of the pods' namespace."""
    return {"podSelector": {"matchLabels": names.gateway_selector()}}


def tcp(*ports: int) -> list[dict[str, Any]]:
    """Return TCP ports for a rule."""
    return [{"protocol": "TCP", "port": port} for port in ports]


def to_cluster(api_server_ports: Sequence[int]) -> list[dict[str, Any]]:
    """Return rules for DNS and the API server.

    A policy cannot name their addresses before they are known, so it permits these ports at any address.
    """
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return [{"ports": dns}, {"ports": tcp(*api_server_ports)}]


def _in_namespace(namespace: str, labels: Mapping[str, str]) -> Peer:
    # A label alone must not open access: a user who may create pods in another namespace can set it there.
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: namespace}},
        "podSelector": {"matchLabels": dict(labels)},
    }
