"""A second Ray cluster in addition to one that has grown, made by the real KubeRay."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.api.admin import JSON_PATCH, Admin, eventually
from tests.api.playing.words import write_whole
from tests.gpu.looks import pods, read_message, service, small
from tests.gpu.nodes import L4, PRODUCT

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("gated")]


class Twice:
    """A service whose traffic has moved from a first Ray cluster to a second one."""

    def __init__(self, admin: Admin, traffic: Path) -> None:
        self.admin = admin
        self._file = traffic / f"{admin.namespace}.one"
        self.first = self.second = ""

    def gateways_are_at(self, *names: str) -> None:
        """Gateways have requests there."""
        write_whole(self._file, json.dumps({"clusters": names}))

    def up(self, **rollout: Any) -> None:
        """Bring it up, and then change it."""
        made = service("one", small(nodeSelector={PRODUCT: L4}))
        made["spec"]["rollout"] = rollout
        self.admin.create(made)
        read_message(self.admin, "one", "Ready", "True")
        [first] = clusters(self.admin)
        self.first = first["metadata"]["name"]
        self.gateways_are_at(self.first)
        self.admin.merge("LLMService", "one", {"spec": {"runtime": {"env": [{"name": "A", "value": "b"}]}}})
        found: Any = eventually(
            "a second cluster", lambda: len(clusters(self.admin)) == 2 and clusters(self.admin)
        )
        self.second = next(name for each in found if (name := each["metadata"]["name"]) != self.first)
        self.gateways_are_at(self.first, self.second)
        eventually("traffic moved", lambda: self.backends() == [self.second])

    def backends(self) -> list[str]:
        """Return the clusters that gateways receive."""
        gate = (self.admin.get("LLMService", "one").get("status") or {}).get("gate") or {}
        return [each["cluster"] for each in gate.get("backends") or ()]

    def names(self) -> list[str]:
        """Return the existing Ray clusters by name."""
        return [each["metadata"]["name"] for each in clusters(self.admin)]


@pytest.fixture
def twice(admin: Admin, answers: Path, traffic: Path) -> Twice:
    (answers / f"{admin.namespace}.one").write_text("")
    return Twice(admin, traffic)


def test_first_cluster_remains_until_its_requests_end(twice: Twice) -> None:
    twice.up()
    assert twice.admin.get("RayService", "one")["spec"]["rayClusterDeletionDelaySeconds"] == 3600
    time.sleep(5)
    assert sorted(twice.names()) == sorted([twice.first, twice.second])
    twice.gateways_are_at(twice.second)
    eventually("the first one gone", lambda: twice.names() == [twice.second], 30)
    eventually("its pods gone", lambda: len(pods(twice.admin, "one")) == 1)
    read_message(twice.admin, "one", "Ready", "True")


def test_first_cluster_with_requests_is_deleted_after_drain_timeout(twice: Twice) -> None:
    twice.up(drainTimeout="20s")
    time.sleep(5)
    assert twice.first in twice.names()
    eventually("the first one gone", lambda: twice.names() == [twice.second], 60)


def clusters(admin: Admin) -> list[Any]:
    """Return the Ray clusters, the older one first."""
    return sorted(admin.list("RayCluster"), key=lambda each: str(each["metadata"]["creationTimestamp"]))


def running(admin: Admin, cluster: str) -> int:
    """Return the running worker pods of a Ray cluster."""
    found = [pod for pod in pods(admin, "one") if pod["metadata"]["labels"]["ray.io/cluster"] == cluster]
    return sum(pod["status"].get("phase") == "Running" for pod in found)


def test_second_cluster_starts_with_current_number_of_replicas(admin: Admin, answers: Any) -> None:
    model = small(nodeSelector={PRODUCT: L4}) | {"replicas": {"max": 3}}
    (answers / f"{admin.namespace}.one").write_text("")
    admin.create(service("one", model))
    read_message(admin, "one", "Ready", "True")
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
    read_message(admin, "one", "Reconciling", "False")
    assert admin.get("RayService", "one")["metadata"]["generation"] == before + 1, "written once"
    assert len(clusters(admin)) == 2, "and no third one was needed"
