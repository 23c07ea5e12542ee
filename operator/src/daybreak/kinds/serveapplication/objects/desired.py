"""All objects of a ServeApplication, in the order in which they are applied."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.groups import fewest_pods
from daybreak.kinds.serveapplication.objects.metadata import metadata
from daybreak.kinds.serveapplication.objects.network import front_service, network_policy
from daybreak.kinds.serveapplication.objects.ray_service import ray_service
from daybreak.platform import Platform
from daybreak.ray.pods.account import account


def desired(
    application: ServeApplication,
    platform: Platform,
    gateway_port: int | None,
    *,
    asleep: SleepDepth | None = None,
    code: str = "",
) -> list[dict[str, Any]]:
    """Return the objects of the application; objects that pods need precede the RayService.

    Args:
        application: The application.
        platform: Settings of the installation.
        gateway_port: The gateway's port for the application. None to reach it without a gateway.
        asleep: Depth to which the application is released.
        code: Digest of the ConfigMap with the code. Empty if the code has another source or is unknown.
    """
    objects: list[dict[str, Any]] = []
    if application.spec.runtime.service_account_name is None:
        objects.append(account(metadata(application, names.service_account(application.owner))))
    if platform.network_policy:
        objects.append(network_policy(application, platform, gateway=gateway_port is not None))
    fewest = 0 if asleep is SleepDepth.WORKERS else sum(fewest_pods(application).values())
    objects += [_disruption_budget(application, fewest), front_service(application, gateway_port)]
    if asleep is not SleepDepth.CLUSTER:
        away, gateway = asleep is SleepDepth.WORKERS, gateway_port is not None
        objects.append(ray_service(application, platform, code, gateway=gateway, away=away))
    return objects


def _disruption_budget(application: ServeApplication, fewest: int) -> dict[str, Any]:
    """Return the PodDisruptionBudget of the Ray pods.

    A drain of nodes leaves as many ready pods as the groups have at least; the head may be one of them. While
    only the head exists, the drain may evict it.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(application, names.disruption_budget(application.owner)),
        "spec": {
            "minAvailable": fewest,
            "selector": {
                "matchLabels": names.owner_labels(application.owner),
                "matchExpressions": [{"key": names.RAY_NODE_TYPE_LABEL, "operator": "Exists"}],
            },
        },
    }
