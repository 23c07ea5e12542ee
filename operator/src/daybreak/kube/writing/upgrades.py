"""Cancellation of a pending Ray cluster.

KubeRay compares a RayService with the pending cluster while there is one, and never with the serving one.
Therefore a reverted RayService gets a third cluster, although the first one matches it. If the status does
not name the pending cluster, KubeRay compares with the first one, finds no difference, and removes the
unnamed cluster.
"""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.client import JSON_PATCH, Api
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import key_of
from daybreak.manifests.resources import RAY_SERVICES


def patch(ray_service: Mapping[str, Any], pending: str) -> list[dict[str, Any]]:
    """Return the JSON patch that removes the pending cluster's name from a RayService's status.

    The patch is for the version that was read, because KubeRay may be about to switch to the pending cluster.
    """
    return [
        {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": ray_service["metadata"]["resourceVersion"],
        },
        {"op": "test", "path": "/status/pendingServiceStatus/rayClusterName", "value": pending},
        {"op": "replace", "path": "/status/pendingServiceStatus", "value": {}},
    ]


async def call_off(api: Api, cache: Cache, ray_service: Mapping[str, Any], pending: str) -> None:
    """Cancel the pending Ray cluster of a RayService.

    Raises:
        ApiError: With `conflict` or status 422 if the RayService has changed since it was read.
    """
    key = key_of(ray_service)
    path = RAY_SERVICES.path(key.namespace, key.name, "status")
    with cache.writing(RAY_SERVICES, key) as take:
        body = patch(ray_service, pending)
        take(await api.request("patch", RAY_SERVICES, path, body=body, content_type=JSON_PATCH), True)
