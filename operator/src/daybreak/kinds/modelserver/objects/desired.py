"""All objects of a ModelServer, in the order in which they are applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.kinds.modelserver.objects.deployment import deployment
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.kinds.modelserver.objects.network import front_service, network_policy
from daybreak.platform import Platform
from daybreak.ray.network import own_pods
from daybreak.ray.pods.account import account


def desired(
    server: ModelServer,
    platform: Platform,
    gateway_port: int | None,
    replicas: int,
    *,
    unproven: bool = False,
) -> list[dict[str, Any]]:
    """Return the objects of the server; objects that pods need precede the Deployment.

    Args:
        server: The server.
        platform: Settings of the installation.
        gateway_port: The gateway's port for the server. None to reach it without a gateway.
        replicas: Desired number of pods.
        unproven: True if new pods start alongside others, and no pod like them has answered yet.
    """
    objects: list[dict[str, Any]] = []
    if server.spec.service_account_name is None:
        objects.append(account(metadata(server, names.service_account(server.owner))))
    if platform.network_policy:
        objects.append(network_policy(server, platform, gateway=gateway_port is not None))
    return [
        *objects,
        _disruption_budget(server),
        front_service(server, gateway_port),
        deployment(server, platform, replicas, unproven=unproven),
    ]


def _disruption_budget(server: ModelServer) -> dict[str, Any]:
    """Return the PodDisruptionBudget: a drain of nodes evicts one pod at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(server, names.disruption_budget(server.owner)),
        "spec": {"maxUnavailable": 1, "selector": own_pods(server.owner)},
    }
