"""RayService: Serve's configuration, and the Ray cluster on which it runs."""

from typing import Any

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.metadata import metadata
from daybreak.kinds.serveapplication.objects.pods import (
    code_environment,
    code_places,
    drain_seconds,
    llm_groups,
    worker_group,
)
from daybreak.kinds.serveapplication.objects.serve_config import serve_config
from daybreak.platform import Platform
from daybreak.ray.cluster_config import cluster_digest
from daybreak.ray.pods.head import autoscaler_options, head_group
from daybreak.ray.quantities import whole_seconds
from daybreak.ray.serve.serve_config import KEEP_ALIVE_SECONDS

_DELETION_MARGIN_SECONDS = 30


def ray_service(
    application: ServeApplication,
    platform: Platform,
    code: str = "",
    *,
    gateway: bool = True,
    away: bool = False,
) -> dict[str, Any]:
    """Return the RayService of an application.

    Running pods have already read their code, so other code needs other pods: KubeRay creates a second Ray
    cluster for them.

    Args:
        application: The application.
        platform: Settings of the installation.
        code: Digest of the ConfigMap with the code. Empty if the code has another source or is unknown.
        gateway: True if clients reach the application through a gateway.
        away: True if the worker pods are released and the head stays.
    """
    runtime, workload = application.workload.runtime, application.workload
    variables = [{"name": name, "value": value} for name, value in code_environment(application).items()]
    cluster: dict[str, Any] = {
        "rayVersion": runtime.stated_ray_version or versions.RAY,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": autoscaler_options(runtime.head, whole_seconds(runtime.idle_timeout)),
        "headGroupSpec": head_group(
            workload,
            platform,
            # The head imports the code, and therefore needs its dependencies.
            image=platform.image_of(workload),
            variables=variables,
            places=code_places(application),
        ),
        "workerGroupSpecs": [
            *(worker_group(application, group, platform, away=away) for group in application.groups),
            *llm_groups(application, platform, away=away),
        ],
    }
    found = metadata(application, names.ray_service(application.name))
    if code:
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"]["metadata"].setdefault("annotations", {})[names.CODE_ANNOTATION] = code
    marks = Marks.desired(application, code).annotations
    found["annotations"] = {**marks, names.RAY_CLUSTER_ANNOTATION: cluster_digest(cluster)}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": found,
        "spec": {
            "serveConfigV2": serve_config(application, away=away),
            "upgradeStrategy": {"type": "NewCluster"},
            "rayClusterDeletionDelaySeconds": _deletion_delay(application, gateway=gateway),
            "rayClusterConfig": cluster,
        },
    }


def _deletion_delay(application: ServeApplication, *, gateway: bool) -> int:
    """Return the maximum lifetime in seconds of the old cluster after an update has moved the traffic.

    Gateways count the requests that remain there, and Daybreak deletes the cluster when there are none.
    Without a gateway there is no such count. The cluster then lives until every idle connection to it is
    closed and requests in flight have ended.
    """
    if gateway:
        return whole_seconds(application.spec.rollout.drain_timeout)
    return max(KEEP_ALIVE_SECONDS, drain_seconds(application)) + _DELETION_MARGIN_SECONDS
