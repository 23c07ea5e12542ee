"""Models without accelerators, and a node with just the cores that one of them needs: they take turns too.

Simulated besides the parts that `conftest.py` names: Ray's autoscaler, which deletes pods of groups at zero.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from cluster import FakeNode
from tests.api.admin import Admin, eventually
from tests.api.playing.words import PATIENCE
from tests.gpu.exact import Exact, gate
from tests.gpu.looks import node_of, placed
from tests.gpu.nodes import Nodes

pytestmark = [pytest.mark.xdist_group("gpu-turns"), pytest.mark.usefixtures("gated", "serve_by_pods")]

PATIENT = {"afterIdle": "1h", "minAwake": "1s"}
"""Sleep settings of a model that no timer puts to sleep during a test."""
CORES = "cores"
"""The label and the taint of the nodes of these tests."""
TOLERATED = {"key": CORES, "operator": "Exists"}


class OnCores(Exact):
    """A service with one model on those nodes, with a given number of CPUs for each pod."""

    def make_with(self, cores: int) -> None:
        """Make it."""
        on_cpu = {"kind": "cpu", "nodeSelector": {CORES: "yes"}, "tolerations": [TOLERATED]}
        self.make(PATIENT, accelerator=on_cpu, resources={"cpu": str(cores), "memory": "1Gi"})


@pytest.fixture
def both(admin: Admin, answers: Path, traffic: Path) -> tuple[OnCores, OnCores]:
    """Return two services."""
    one, two = (OnCores(admin, answers, traffic, name) for name in ("one", "two"))
    return one, two


def node(name: str, cores: int) -> FakeNode:
    """Return a node without accelerators, for models alone."""
    return FakeNode(name, gpus=0, cpus=cores, labels={CORES: "yes"}, taints=(f"{CORES}=yes:NoSchedule",))


def test_idle_service_yields_cores_to_service_with_held_request(
    both: tuple[OnCores, OnCores], nodes: Nodes
) -> None:
    nodes.add(node("cores", 4))
    one, two = both
    one.make_with(3)
    one.opens()
    one.gateways(in_flight=1)
    two.make_with(3)
    two.gateways(held=1)
    two.reaches("in the queue", lambda status: gate(status).get("acceleratorQueue", {}).get("position"))
    time.sleep(2 * PATIENCE.total_seconds())
    assert one.is_open, "one that is asked keeps its cores"
    one.gateways(idle=60)
    two.opens()
    one.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")
    placed(two.admin, two.name, 1)


def test_service_does_not_yield_if_waiting_service_would_not_fit(
    both: tuple[OnCores, OnCores], nodes: Nodes, admin: Admin
) -> None:
    """The capacity that is missing is used by another owner's pod."""
    nodes.add(node("cores", 6))
    admin.create(pod_of_somebody_else(cores=2))
    eventually("it stands", lambda: node_of(admin.get("Pod", "other")))
    one, two = both
    one.make_with(2)
    one.opens()
    one.gateways(idle=60)
    two.make_with(5)
    two.gateways(held=1)
    two.reaches("in the queue", lambda status: gate(status).get("acceleratorQueue", {}).get("position"))
    time.sleep(2 * PATIENCE.total_seconds())
    assert one.is_open
    admin.delete("Pod", "other")
    two.opens()
    one.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")


def pod_of_somebody_else(cores: int) -> dict[str, Any]:
    """One that takes cores of those nodes."""
    asks = {"requests": {"cpu": str(cores)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other"},
        "spec": {
            "nodeSelector": {CORES: "yes"},
            "tolerations": [TOLERATED],
            "containers": [{"name": "other", "image": "other", "resources": asks}],
        },
    }
