"""Bounds of worker groups in running RayClusters.

KubeRay ignores `minReplicas` and `maxReplicas` when it compares a RayService with its RayCluster, so it never
applies a change of them. `replicas` stays unchanged, because the autoscaler owns it. Regardless of
`replicas`, KubeRay adds pods up to `minReplicas`. Ray's autoscaler stops pods above `maxReplicas`: idle pods
first, then the others without waiting. Afterwards both write `replicas` themselves.
"""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.client import JSON_PATCH, Api
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import key_of
from daybreak.manifests.resources import RAY_CLUSTERS

Bounds = Mapping[str, tuple[int, int]]
"""Minimum and maximum number of replicas of each worker group, by group name."""


def patch(cluster: Mapping[str, Any], desired: Bounds) -> list[dict[str, Any]]:
    """Return the JSON patch that sets the bounds of a RayCluster's groups; empty if they are set already."""
    changes: list[dict[str, Any]] = []
    for index, group in enumerate(cluster["spec"].get("workerGroupSpecs") or ()):
        bounds = desired.get(group["groupName"])
        if bounds is None or bounds == (group.get("minReplicas"), group.get("maxReplicas")):
            continue
        path = f"/spec/workerGroupSpecs/{index}"
        changes += [
            {"op": "test", "path": f"{path}/groupName", "value": group["groupName"]},
            {"op": "add", "path": f"{path}/minReplicas", "value": bounds[0]},
            {"op": "add", "path": f"{path}/maxReplicas", "value": bounds[1]},
        ]
    if not changes:
        return []
    # The autoscaler writes this list too, so the patch applies only to the version that was read.
    version = cluster["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *changes]


async def set_bounds(api: Api, cache: Cache, cluster: Mapping[str, Any], desired: Bounds) -> bool:
    """Set the bounds of a RayCluster's worker groups. Return True if the RayCluster was written.

    Raises:
        ApiError: With `conflict` or `refused` if the RayCluster has changed since it was read.
    """
    if cluster["metadata"].get("deletionTimestamp"):
        return False
    changes = patch(cluster, desired)
    if not changes:
        return False
    key = key_of(cluster)
    path = RAY_CLUSTERS.path(key.namespace, key.name)
    with cache.writing(RAY_CLUSTERS, key) as take:
        written = await api.request("patch", RAY_CLUSTERS, path, body=changes, content_type=JSON_PATCH)
        take(written, cluster.get("status") != written.get("status"))
    return True
