"""The RayService: Serve's configuration and the Ray cluster under it."""

from typing import Any

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.metadata import metadata
from daybreak.kinds.serveapplication.objects.pods import (
    code_environment,
    code_places,
    drain_seconds,
    worker_group,
)
from daybreak.kinds.serveapplication.objects.serve_config import serve_config
from daybreak.platform import Platform
from daybreak.ray.pods.head import autoscaler_options, head_group
from daybreak.ray.quantities import whole_seconds
from daybreak.ray.serve.serve_config import KEEP_ALIVE_SECONDS

_DELETION_MARGIN_SECONDS = 30
_OF_PODS = {"code", "worker_groups", "accelerator", "runtime"}
"""Fields of a spec that change pods by themselves."""


def ray_service(application: ServeApplication, platform: Platform, code: str = "") -> dict[str, Any]:
    """The RayService of an application; `code` is the digest of the ConfigMap with its code.

    What runs has read its code, so other code takes other pods: KubeRay makes a second Ray cluster for them.
    """
    runtime, workload = application.workload.runtime, application.workload
    variables = [{"name": name, "value": value} for name, value in code_environment(application).items()]
    cluster: dict[str, Any] = {
        "rayVersion": runtime.stated_ray_version or versions.RAY,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": autoscaler_options(whole_seconds(runtime.idle_timeout)),
        "headGroupSpec": head_group(
            workload,
            platform,
            # It imports the code, whatever that needs.
            image=platform.image_of(workload),
            variables=variables,
            places=code_places(application),
        ),
        "workerGroupSpecs": [worker_group(application, group, platform) for group in application.groups],
    }
    found = metadata(application, names.ray_service(application.name))
    found["annotations"] = {names.WISHES_ANNOTATION: wishes(application)}
    if code:
        found["annotations"][names.CODE_ANNOTATION] = code
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"]["metadata"].setdefault("annotations", {})[names.CODE_ANNOTATION] = code
    # An idle connection to the old head is closed, and requests in progress there end, before it goes.
    delay = max(KEEP_ALIVE_SECONDS, drain_seconds(application)) + _DELETION_MARGIN_SECONDS
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": found,
        "spec": {
            "serveConfigV2": serve_config(application),
            "upgradeStrategy": {"type": "NewCluster"},
            "rayClusterDeletionDelaySeconds": delay,
            "rayClusterConfig": cluster,
        },
    }


def wishes(application: ServeApplication) -> str:
    """Digest of what the spec says of the pods."""
    spec = application.spec
    plain = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=_OF_PODS)
    sizes = [
        group.pod.model_dump(mode="json", by_alias=True, exclude={"replicas"}) for group in application.groups
    ]
    return digest({**plain, "pods": sizes, "drain": drain_seconds(application)})
