"""The RayService: Serve's configuration and the Ray cluster under it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.built_with import built_with
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.ray.pods.head import autoscaler_options, head_group
from daybreak.ray.pods.workers import worker_group
from daybreak.ray.quantities import whole_seconds
from daybreak.ray.serve.serve_config import KEEP_ALIVE_SECONDS, serve_config

_DELETION_MARGIN_SECONDS = 30


def ray_service(
    svc: LLMService, platform: Platform, ray_version: str = "", running: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The RayService of the service.

    Args:
        svc: The service.
        platform: Settings of the installation.
        ray_version: The version of Ray in the image where the spec does not say it; empty: the operator's.
        running: Replicas with which a new Ray cluster begins at least, by model.
    """
    runtime, workload = svc.spec.runtime, replace(svc.workload, running=running or {})
    cluster: dict[str, Any] = {
        "rayVersion": runtime.stated_ray_version or ray_version or versions.RAY,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": autoscaler_options(runtime.head, whole_seconds(runtime.idle_timeout)),
        "headGroupSpec": head_group(workload, platform, image=platform.head_image_of(workload)),
        "workerGroupSpecs": [worker_group(workload, model, platform) for model in svc.spec.models],
    }
    found = metadata(svc, names.ray_service(svc.name), "ray", runtime.metadata)
    record = built_with(svc, platform, cluster, workload.running).annotations()
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": found | {"annotations": found.get("annotations", {}) | record},
        "spec": {
            "serveConfigV2": serve_config(workload),
            "upgradeStrategy": {"type": "NewCluster"},
            "rayClusterDeletionDelaySeconds": _deletion_delay(svc, gateway=bool(platform.gateway_image)),
            "rayClusterConfig": cluster,
        },
    }


def _deletion_delay(svc: LLMService, *, gateway: bool) -> int:
    """Seconds that the old cluster lives on at most after an update has moved the traffic.

    Gateways count the requests that are left there, and Daybreak deletes it when none is. Without a gateway
    nobody counts: it lives until every idle connection to it has been closed, and every request that it had
    begun is done or out of time.
    """
    if gateway:
        return whole_seconds(svc.spec.rollout.drain_timeout)
    longest = max(whole_seconds(model.serve.graceful_shutdown_timeout) for model in svc.spec.models)
    return max(KEEP_ALIVE_SECONDS, longest) + _DELETION_MARGIN_SECONDS
