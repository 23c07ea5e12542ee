"""NetworkPolicy of a batch's pods, because access to Ray's ports allows running code in the pods.

The pods of a batch reach each other on any port. From outside, KubeRay's operator submits the job, Daybreak's
operator reads the progress, and the metrics port is open. The policy does not restrict outgoing traffic.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbatch.definition import KIND, LLMBatch
from daybreak.kinds.llmbatch.objects.ray_job import COMPONENT
from daybreak.platform import Platform
from daybreak.ray import network, ports


def network_policy(batch: LLMBatch, platform: Platform) -> dict[str, Any]:
    """Return the policy that closes the ports of the batch's pods."""
    ingress = [
        {"from": [{"podSelector": network.own_pods(batch.owner)}]},
        {"from": [network.kuberay(platform)], "ports": network.tcp(ports.DASHBOARD)},
        {"from": [network.operator(platform)], "ports": network.tcp(ports.BATCH)},
        {"ports": network.tcp(ports.METRICS)},
    ]
    name = names.network_policy(batch.owner)
    return network.policy(owned_metadata(KIND, batch, name, COMPONENT), batch.owner, ingress)
