"""Worker group bounds of running RayClusters.

KubeRay leaves `minReplicas` and `maxReplicas` out when it compares a RayService with its RayCluster, so a
change of them never arrives there by itself. `replicas` is left alone: it is the autoscaler's. KubeRay adds
pods up to `minReplicas` whatever it says, and Ray's autoscaler stops what is above `maxReplicas`: idle pods
first, but the others as well, without waiting for anything. Both write `replicas` themselves then.
"""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.client import JSON_PATCH, Api
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import key_of
from daybreak.manifests.resources import RAY_CLUSTERS

Bounds = Mapping[str, tuple[int, int]]
"""Fewest and most replicas of each worker group, by the group's name."""


def patch(cluster: Mapping[str, Any], wanted: Bounds) -> list[dict[str, Any]]:
    """The JSON patch that gives a RayCluster's groups their bounds; empty when they have them."""
    changes: list[dict[str, Any]] = []
    for index, group in enumerate(cluster["spec"].get("workerGroupSpecs") or ()):
        bounds = wanted.get(group["groupName"])
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
    # The autoscaler writes this list too: only in the version that was read.
    version = cluster["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *changes]


async def set_bounds(api: Api, cache: Cache, cluster: Mapping[str, Any], wanted: Bounds) -> bool:
    """Give a RayCluster's worker groups their bounds. Returns whether something was written.

    Raises ApiError with `conflict` or `refused` when the RayCluster has changed in between.
    """
    if cluster["metadata"].get("deletionTimestamp"):
        return False
    changes = patch(cluster, wanted)
    if not changes:
        return False
    key = key_of(cluster)
    path = RAY_CLUSTERS.path(key.namespace, key.name)
    with cache.writing(RAY_CLUSTERS, key) as take:
        written = await api.request("patch", RAY_CLUSTERS, path, body=changes, content_type=JSON_PATCH)
        take(written, cluster.get("status") != written.get("status"))
    return True
