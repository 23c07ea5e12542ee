"""The NetworkPolicy of a benchmark's pod: Daybreak's operator asks how far it is, and nobody else gets in."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray import ports

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def network_policy(benchmark: LLMBenchmark, platform: Platform) -> dict[str, Any]:
    """The policy that closes the pod's ports."""
    owner = names.of_benchmark(benchmark.name)
    namespace = platform.operator_namespace
    operator = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: namespace}} if namespace else {},
        "podSelector": {"matchLabels": names.operator_selector()},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(benchmark, names.network_policy(owner)),
        "spec": {
            "podSelector": {"matchLabels": {names.SERVICE_LABEL: owner}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [operator], "ports": [{"protocol": "TCP", "port": ports.BATCH}]}],
        },
    }
