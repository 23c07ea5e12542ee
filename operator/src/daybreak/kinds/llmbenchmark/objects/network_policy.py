"""NetworkPolicy of a benchmark's pod: only Daybreak's operator has access, to read the progress."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark
from daybreak.kinds.llmbenchmark.objects.job import COMPONENT
from daybreak.platform import Platform
from daybreak.ray import network, ports


def network_policy(benchmark: LLMBenchmark, platform: Platform) -> dict[str, Any]:
    """Return the policy that closes the pod's ports."""
    name = names.network_policy(benchmark.owner)
    ingress = [{"from": [network.operator(platform)], "ports": network.tcp(ports.BATCH)}]
    return network.policy(owned_metadata(KIND, benchmark, name, COMPONENT), benchmark.owner, ingress)
