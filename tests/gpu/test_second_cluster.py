"""A second Ray cluster beside one that has grown, made by the real KubeRay."""

from typing import Any

import pytest

from tests.api.admin import JSON_PATCH, Admin, eventually
from tests.gpu.looks import pods, said, service, small
from tests.gpu.nodes import L4, PRODUCT

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator")]


def clusters(admin: Admin) -> list[Any]:
    """The Ray clusters, the older one first."""
    return sorted(admin.list("RayCluster"), key=lambda each: str(each["metadata"]["creationTimestamp"]))


def running(admin: Admin, cluster: str) -> int:
    """Worker pods of a Ray cluster that run."""
    found = [pod for pod in pods(admin, "one") if pod["metadata"]["labels"]["ray.io/cluster"] == cluster]
    return sum(pod["status"].get("phase") == "Running" for pod in found)


def test_it_starts_with_as_many_replicas_as_run(admin: Admin, answers: Any) -> None:
    model = small(nodeSelector={PRODUCT: L4}) | {"replicas": {"max": 3}}
    (answers / f"{admin.namespace}.one").write_text("")
    admin.create(service("one", model))
    said(admin, "one", "Ready", "True")
    [first] = clusters(admin)
    name = first["metadata"]["name"]
    # As Ray's autoscaler does, when Serve asks for another replica.
    grow = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}]
    admin.request("PATCH", admin.path("RayCluster", name), grow, JSON_PATCH)
    eventually("two replicas", lambda: running(admin, name) == 2)
    before = admin.get("RayService", "one")["metadata"]["generation"]

    admin.merge("LLMService", "one", {"spec": {"runtime": {"env": [{"name": "A", "value": "b"}]}}})
    new = eventually("a second cluster", lambda: len(clusters(admin)) == 2 and clusters(admin)[-1])
    assert new["spec"]["workerGroupSpecs"][0]["replicas"] == 2
    assert new["spec"]["workerGroupSpecs"][0]["minReplicas"] == 1
    eventually("two replicas", lambda: running(admin, new["metadata"]["name"]) == 2)
    said(admin, "one", "Reconciling", "False")
    assert admin.get("RayService", "one")["metadata"]["generation"] == before + 1, "written once"
    assert len(clusters(admin)) == 2, "and no third one was needed"
