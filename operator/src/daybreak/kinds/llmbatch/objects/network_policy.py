"""The NetworkPolicy of a batch's pods: whoever reaches Ray's own ports can run code in the pods.

Among themselves the pods talk on any port. From outside, KubeRay's operator submits the job, Daybreak's asks
how far it is, and metrics are open. Nothing is said of outgoing traffic.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.kinds.llmbatch.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import ports

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERAY_LABELS = {"app.kubernetes.io/component": "kuberay-operator"}
_OPERATOR_LABELS = {"app.kubernetes.io/component": "operator", "app.kubernetes.io/part-of": "daybreak"}


def network_policy(batch: LLMBatch, platform: Platform) -> dict[str, Any]:
    """The policy that closes the pods' ports."""
    own = {"matchLabels": {names.SERVICE_LABEL: batch.workload.name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(batch, names.network_policy(batch.workload.name), "batch"),
        "spec": {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": own}]},
                {
                    "from": [_from(platform.kuberay_namespace, _KUBERAY_LABELS)],
                    "ports": [_port(ports.DASHBOARD)],
                },
                {
                    "from": [_from(platform.operator_namespace, _OPERATOR_LABELS)],
                    "ports": [_port(ports.BATCH)],
                },
                {"ports": [_port(ports.METRICS)]},
            ],
        },
    }


def _from(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """Pods with these labels in a namespace; empty: in any."""
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: namespace}} if namespace else {},
        "podSelector": {"matchLabels": dict(labels)},
    }


def _port(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
