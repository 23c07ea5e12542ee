"""RayService: Serve's configuration, and the Ray cluster on which it runs."""

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
    """Return the RayService of the service.

    Args:
        svc: The service.
        platform: Settings of the installation.
        ray_version: Version of Ray in the image if the spec does not state it. Defaults to the operator's
            version.
        running: Minimum number of replicas with which a new Ray cluster starts, by model.
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
    """Return the maximum lifetime in seconds of the old cluster after an update has moved the traffic.

    Gateways count the requests that remain there, and Daybreak deletes the cluster when there are none.
    Without a gateway there is no such count. The cluster then lives until every idle connection to it is
    closed, and until every request that it had begun has ended or timed out.
    """
    if gateway:
        return whole_seconds(svc.spec.rollout.drain_timeout)
    longest = max(whole_seconds(model.serve.graceful_shutdown_timeout) for model in svc.spec.models)
    return max(KEEP_ALIVE_SECONDS, longest) + _DELETION_MARGIN_SECONDS
