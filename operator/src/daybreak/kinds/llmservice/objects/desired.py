"""Everything that a service stands for, in the order in which it is applied."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from daybreak.api.common import names
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects import cache_jobs
from daybreak.kinds.llmservice.objects.disruption_budget import disruption_budget
from daybreak.kinds.llmservice.objects.front_service import front_service
from daybreak.kinds.llmservice.objects.network_policy import network_policy
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.kinds.llmservice.objects.service_account import service_account
from daybreak.platform import Platform
from daybreak.ray.pods import workers

Manifest = dict[str, Any]


def desired(
    svc: LLMService,
    platform: Platform,
    active_cluster: str | None,
    gateway_port: int | None = None,
    asleep: SleepDepth | None = None,
    given_back: Collection[str] = (),
    unfilled: Collection[str] = (),
    *,
    past_gateway: bool = False,
) -> list[Manifest]:
    """Objects of the service: what pods need comes before the RayService that makes them.

    Args:
        svc: The service.
        platform: Settings of the installation.
        active_cluster: Name of the RayCluster that answers; None as long as there is none.
        gateway_port: The gateway's port for the service; None: it is reached without a gateway.
        asleep: What is given back of the whole service.
        given_back: Models whose workers are given back. Only numbers differ by it, which Serve changes in
            place: nothing is restarted when they wake.
        past_gateway: Whether its address leads past that gateway, which is on its way out.
        unfilled: Models whose weights a Job shall copy into their claim.
    """
    claims, jobs = cache_jobs.claims(svc), cache_jobs.jobs(svc, platform, unfilled)
    svc = replace(svc, asleep=frozenset(given_back))
    objects: list[Manifest] = []
    if svc.spec.runtime.service_account_name is None:
        objects.append(service_account(svc))
    if platform.network_policy:
        behind = bool(platform.gateway_image) or gateway_port is not None
        objects.append(network_policy(svc, platform, gateway=behind, direct=not behind or past_gateway))
    objects.append(disruption_budget(svc))
    objects += [*claims, *jobs]
    objects.append(front_service(svc, active_cluster, None if past_gateway else gateway_port))
    if asleep is not SleepDepth.CLUSTER:
        objects.append(ray_service(svc, platform))
    return objects


def group_bounds(svc: LLMService, given_back: Collection[str] = ()) -> dict[str, tuple[int, int]]:
    """Fewest and most pods of each worker group.

    KubeRay does not carry a change of these from a RayService into a cluster that runs: they are patched
    there. While a model sleeps there shall be no pod of it at all: the autoscaler need not wait until one has
    been idle.
    """
    return {
        names.worker_group(model.name): (0, 0)
        if model.name in given_back
        else workers.bounds(svc.workload, model)
        for model in svc.spec.models
    }
