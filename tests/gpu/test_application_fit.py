"""The fit check of ServeApplications against fake nodes: fractions of accelerators, in whole devices."""

from typing import Any

import pytest

from cluster import FakeNode
from tests.api.admin import Admin, eventually
from tests.gpu.looks import GPU, TOLERATED, gpus, node_of, pods, read_message
from tests.gpu.nodes import Nodes

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator", "serve_by_pods")]

KIND, OWNER = "ServeApplication", "application.pipeline"
BIG = {"pool": "big"}


def application(**spec: Any) -> dict[str, Any]:
    """Return two deployments in the pods of one worker group, on nodes for the test only."""
    deployments = [
        {"name": name, "cpu": "100m", "memory": "1Gi", "accelerators": 0.75, "workerGroup": "models"}
        for name in ("Mood", "Length")
    ]
    accelerator = {"nodeSelector": BIG, "tolerations": TOLERATED}
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": KIND,
        "metadata": {"name": "pipeline"},
        "spec": {
            "importPath": "pipeline:build",
            "deployments": deployments,
            "accelerator": accelerator,
            **spec,
        },
    }


def placed(admin: Admin) -> list[Any]:
    """Return the worker pods of the active Ray cluster, once all of them run on nodes."""

    def look() -> list[Any]:
        cluster = admin.get(KIND, "pipeline")["status"].get("rayCluster")
        found = [pod for pod in pods(admin, OWNER) if pod["metadata"]["labels"]["ray.io/cluster"] == cluster]
        return found if all(pod["status"].get("phase") == "Running" for pod in found) else []

    return eventually("its worker pods on nodes", look)


def test_application_waits_until_node_has_enough_devices(admin: Admin, nodes: Nodes) -> None:
    nodes.add(FakeNode("big-0", gpus=1, labels=BIG, taints=()))
    admin.create(application())
    numbers = ("Mood (0.75 accelerators) and Length (0.75)", f"needs 2 {GPU} on one node", "has 1 (big-0)")
    message = read_message(admin, "pipeline", "Schedulable", "False", *numbers, reason="NoNodeFits", of=KIND)
    assert read_message(admin, "pipeline", "Stalled", "True", reason="NoNodeFits", of=KIND) == message
    read_message(admin, "pipeline", "Ready", "False", reason="NoNodeFits", of=KIND)
    eventually("its pod waits", lambda: [pod for pod in pods(admin, OWNER) if not node_of(pod)])

    # A node that has them is added. The ServeApplication does not change.
    nodes.add(FakeNode("big-1", gpus=2, labels=BIG, taints=()))
    [worker] = placed(admin)
    assert (node_of(worker), gpus(worker)) == ("big-1", 2)
    read_message(admin, "pipeline", "Schedulable", "True", reason="NodesFit", of=KIND)
    read_message(admin, "pipeline", "Stalled", "False", of=KIND)


def test_suggested_fix_makes_application_schedulable(admin: Admin, nodes: Nodes) -> None:
    nodes.add(*(FakeNode(f"big-{number}", gpus=1, labels=BIG, taints=()) for number in range(2)))
    admin.create(application())
    fix = "give its deployments separate worker groups, of which the largest pod needs 1"
    read_message(admin, "pipeline", "Schedulable", "False", fix, of=KIND)
    apart = [each | {"workerGroup": each["name"].lower()} for each in application()["spec"]["deployments"]]
    admin.merge(KIND, "pipeline", {"spec": {"deployments": apart}})
    read_message(admin, "pipeline", "Schedulable", "True", of=KIND)
    # Ray is played, and so quick that the first cluster may count as one that has served: then it stays for
    # as long as requests might take.
    eventually("two pods run", lambda: [gpus(pod) for pod in placed(admin)] == [1, 1])
