"""Everything that a service stands for, in the order in which it is applied."""

from typing import Any

from daybreak.api import names
from daybreak.api.llmservice import LLMService
from daybreak.builders import workers
from daybreak.builders.disruption_budget import disruption_budget
from daybreak.builders.front_service import front_service
from daybreak.builders.network_policy import network_policy
from daybreak.builders.platform import Platform
from daybreak.builders.ray_service import ray_service
from daybreak.builders.service_account import service_account

Manifest = dict[str, Any]


def desired(svc: LLMService, platform: Platform, active_cluster: str | None) -> list[Manifest]:
    """Objects of the service: what pods need comes before the RayService that makes them.

    `active_cluster` is the name of the RayCluster that answers; None as long as there is none.
    """
    objects: list[Manifest] = []
    if svc.spec.runtime.service_account_name is None:
        objects.append(service_account(svc))
    if platform.network_policy:
        objects.append(network_policy(svc, platform))
    objects.append(disruption_budget(svc))
    objects.append(front_service(svc, active_cluster))
    objects.append(ray_service(svc, platform))
    return objects


def group_bounds(svc: LLMService) -> dict[str, tuple[int, int]]:
    """Fewest and most pods of each worker group.

    KubeRay does not carry a change of these from a RayService into a cluster that runs: they are patched
    there.
    """
    return {names.worker_group(model.name): workers.bounds(svc, model) for model in svc.spec.models}
