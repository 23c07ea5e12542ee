"""Calling a second Ray cluster off.

KubeRay compares a RayService with the cluster that comes up, as long as there is one, and never with the one
that serves. So a RayService that is changed back gets a third cluster, though the first one is what it asks
for. Without the second one's name in the status KubeRay looks at the first, finds nothing to do, and removes
what has no name.
"""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.client import JSON_PATCH, Api
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import key_of
from daybreak.manifests.resources import RAY_SERVICES


def patch(ray_service: Mapping[str, Any], pending: str) -> list[dict[str, Any]]:
    """The JSON patch of a RayService's status that takes the name of the coming cluster out, in the version
    that was read: KubeRay may be about to switch to it."""
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
    """Call the second Ray cluster of a RayService off.

    Raises ApiError with `conflict` or status 422 when the RayService has changed in between.
    """
    key = key_of(ray_service)
    path = RAY_SERVICES.path(key.namespace, key.name, "status")
    with cache.writing(RAY_SERVICES, key) as take:
        body = patch(ray_service, pending)
        take(await api.request("patch", RAY_SERVICES, path, body=body, content_type=JSON_PATCH), True)
