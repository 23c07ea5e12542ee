"""The JSON patch that writes bounds into a RayCluster."""

from typing import Any

from daybreak.kube.writing.scale import patch


def cluster(*groups: dict[str, Any]) -> dict[str, Any]:
    """Return a RayCluster with these worker groups."""
    return {"metadata": {"resourceVersion": "42"}, "spec": {"workerGroupSpecs": list(groups)}}


def test_patch_is_empty_if_bounds_match_or_group_is_missing() -> None:
    running = cluster({"groupName": "a", "minReplicas": 1, "maxReplicas": 2, "replicas": 2})
    assert patch(running, {"a": (1, 2)}) == []
    assert patch(running, {"another": (5, 5)}) == [], "a group that the service does not have any more"


def test_patch_changes_only_bounds_of_changed_group() -> None:
    running = cluster(
        {"groupName": "a", "minReplicas": 1, "maxReplicas": 2, "replicas": 2},
        {"groupName": "b", "replicas": 1},
    )
    assert patch(running, {"a": (1, 2), "b": (0, 4)}) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "42"},
        {"op": "test", "path": "/spec/workerGroupSpecs/1/groupName", "value": "b"},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/minReplicas", "value": 0},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/maxReplicas", "value": 4},
    ]
