"""All objects of a service, in the order in which they are applied."""

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
    """Return the objects of the service; objects that pods need precede the RayService.

    Args:
        svc: The service.
        platform: Settings of the installation.
        active_cluster: Name of the RayCluster that answers. None if there is none yet.
        gateway_port: The gateway's port for the service. None to reach it without a gateway.
        asleep: Depth to which the whole service sleeps.
        given_back: Models whose workers are released. They change only numbers, which Serve applies in place:
            no replica restarts when they wake.
        past_gateway: True if the service's address bypasses the departing gateway.
        unfilled: Models whose weights a Job must copy into their PVC.
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
    """Return the minimum and maximum number of pods of each worker group.

    KubeRay does not apply a change of these numbers from a RayService to a running cluster: the operator
    patches the cluster. A sleeping model must have no pods at all, so that the autoscaler need not wait until
    a pod has been idle.
    """
    return {
        names.worker_group(model.name): (0, 0)
        if model.name in given_back
        else workers.bounds(svc.workload, model)
        for model in svc.spec.models
    }
