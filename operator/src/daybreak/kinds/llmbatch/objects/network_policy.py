"""The NetworkPolicy of a batch's pods: whoever reaches Ray's own ports can run code in the pods.

Among themselves the pods talk on any port. From outside, KubeRay's operator submits the job, Daybreak's asks
how far it is, and metrics are open. Nothing is said of outgoing traffic.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbatch.definition import KIND, LLMBatch
from daybreak.kinds.llmbatch.objects.ray_job import COMPONENT
from daybreak.platform import Platform
from daybreak.ray import network, ports


def network_policy(batch: LLMBatch, platform: Platform) -> dict[str, Any]:
    """The policy that closes the pods' ports."""
    ingress = [
        {"from": [{"podSelector": network.own_pods(batch.owner)}]},
        {"from": [network.kuberay(platform)], "ports": network.tcp(ports.DASHBOARD)},
        {"from": [network.operator(platform)], "ports": network.tcp(ports.BATCH)},
        {"ports": network.tcp(ports.METRICS)},
    ]
    name = names.network_policy(batch.owner)
    return network.policy(owned_metadata(KIND, batch, name, COMPONENT), batch.owner, ingress)
