"""Worker groups: the groups that deployments need, and explicit groups."""

from typing import Any

import pytest

from daybreak.api.serveapplication.validation import problems
from tests.unit.serveapplication.applications import application

TWO_DEVICES = {"placementGroup": {"bundles": [{"accelerators": 1}, {"accelerators": 1}]}}
"""Two accelerators for a replica, in one pod."""


def groups(*deployments: dict[str, Any], **spec: Any) -> dict[str, tuple[int, int, int, int]]:
    """Return the CPUs for Ray, the accelerators, and the minimum and maximum of pods of each group."""
    found = application(deployments=list(deployments), **spec).groups
    return {each.name: (each.ray_cpus, each.accelerators, each.fewest, each.most) for each in found}


def test_deployments_without_accelerators_share_pods() -> None:
    scaled = {"name": "B", "cpu": "500m", "autoscaling": {"minReplicas": 2, "maxReplicas": 5}}
    assert groups({"name": "A", "cpu": "100m"}, scaled, {"name": "C", "cpu": "2"}) == {"cpu": (3, 0, 2, 7)}


def test_deployments_with_accelerators_have_separate_pods() -> None:
    found = groups({"name": "Small", "accelerators": 0.5}, {"name": "Large", "accelerators": 2, "cpu": "3"})
    assert [each[:3] for each in found.values()] == [(1, 1, 1), (3, 2, 1)]


def test_deployments_in_same_worker_group_share_accelerator() -> None:
    shared = [{"name": name, "accelerators": 0.5, "workerGroup": "shared"} for name in "AB"]
    assert groups(*shared) == {"shared": (2, 1, 1, 2)}
    thirds = [{"name": name, "accelerators": 0.1, "workerGroup": "shared"} for name in "ABCDEFGHIJ"]
    assert groups(*thirds)["shared"][1] == 1, "ten tenths are one"


def test_packed_placement_group_is_one_pod_and_spread_group_is_several() -> None:
    bundles = [{"cpu": "1", "accelerators": 1}, {"cpu": "2", "accelerators": 1}]
    packed = {"name": "A", "placementGroup": {"bundles": bundles, "strategy": "STRICT_PACK"}}
    spread = {"name": "A", "placementGroup": {"bundles": bundles, "strategy": "STRICT_SPREAD"}}
    assert [*groups(packed).values()] == [(3, 2, 1, 1)]
    assert [*groups(spread).values()] == [(2, 1, 2, 2)]


def test_explicit_worker_group_is_used_as_specified() -> None:
    written = {"name": "big", "cpu": "7500m", "memory": "20Gi", "accelerators": 1, "maxPods": 3}
    found = application(
        deployments=[{"name": "A", "accelerators": 0.25, "workerGroup": "big", "numReplicas": 9}],
        workerGroups=[written],
        accelerator={"nodeSelector": {"gpu": "yes"}},
    )
    [group] = found.groups
    assert (group.ray_cpus, group.fewest, group.most) == (8, 1, 3)
    assert group.pod.resources.memory == "20Gi"
    assert group.pod.accelerator.node_selector == {"gpu": "yes"}
    assert problems(found) == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {
                "deployments": [{"name": "A", "accelerators": 0.5, "workerGroup": "g"}],
                "workerGroups": [{"name": "g", "cpu": "1", "memory": "2Gi"}],
            },
            "needs 0.5 accelerators in one pod, and a pod of worker group g has 0",
        ),
        (
            {
                "deployments": [{"name": "A", "cpu": "3", "workerGroup": "g"}],
                "workerGroups": [{"name": "g", "cpu": "2", "memory": "2Gi"}],
            },
            "needs 3 cores in one pod, and a pod of worker group g offers 2",
        ),
        (
            {
                "deployments": [{"name": "A", "memory": "4Gi", "workerGroup": "g"}],
                "workerGroups": [{"name": "g", "cpu": "1", "memory": "2Gi"}],
            },
            "needs 4Gi of memory in one pod, and a pod of worker group g has 2Gi",
        ),
        (
            {
                "deployments": [{"name": "A", "accelerators": 0.5, "workerGroup": "g", **TWO_DEVICES}],
                "workerGroups": [{"name": "g", "cpu": "2", "memory": "2Gi", "accelerators": 1}],
            },
            "needs 2 accelerators in one pod, and a pod of worker group g has 1",
        ),
        ({"workerGroups": [{"name": "g", "cpu": "1", "memory": "2Gi"}]}, "no deployment names it"),
        ({"deployments": [{"name": "A"}, {"name": "A"}]}, "A occurs 2 times"),
        (
            {"deployments": [{"name": "A", "placementGroup": {"bundles": [{"cpu": "500m"}]}}]},
            "the replica itself takes 1 of it, and it has 500m",
        ),
        (
            {"code": {"configMap": "c"}, "runtime": {"env": [{"name": "PYTHONPATH", "value": "/x"}]}},
            "PYTHONPATH is set to where spec.code appears",
        ),
        ({"code": {"workingDir": "pvc://Claim/x"}}, "spec.code.workingDir"),
        ({"deployments": [{"name": "A", "memory": "1k"}]}, "is less than 1Mi"),
        ({"runtime": {"rayVersion": "2.9.0"}}, "Ray 2.9.0 is older than"),
    ],
)
def test_invalid_application_is_reported_with_reason(spec: dict[str, Any], words: str) -> None:
    message = problems(application(**spec))
    assert len(message) == 1
    assert words in message[0]
