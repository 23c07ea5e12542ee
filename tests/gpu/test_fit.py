"""The fit check against fake nodes that are there, that come, and that have labels and taints."""

from typing import Any

import pytest
import yaml

from cluster import FakeNode
from tests.api.admin import Admin, eventually
from tests.gpu.looks import GPU, TOLERATED, big, gpus, node_of, placed, pods, read_message, service, small
from tests.gpu.nodes import H100, L4, PRODUCT, Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator", "serve_by_pods")]


def undisturbed(admin: Admin, name: str) -> Any:
    """Return the parts of a service that must not change because of another one."""
    ray_service = admin.get("RayService", name)["metadata"]
    return (
        ray_service["uid"],
        ray_service["generation"],
        [pod["metadata"]["uid"] for pod in pods(admin, name)],
    )


def waits(admin: Admin, name: str) -> bool:
    """Return True if a service's worker pod exists, and waits for a node as an autoscaler expects it."""
    found = [pod for pod in pods(admin, name) if not node_of(pod)]
    return bool(found) and len(found) == len(pods(admin, name))


def test_eight_gpu_model_is_unschedulable_until_larger_node_is_added(admin: Admin, nodes: Nodes) -> None:
    admin.create(service("neighbour", small(nodeSelector={PRODUCT: L4})))
    placed(admin, "neighbour", 1)
    before = undisturbed(admin, "neighbour")

    admin.create(service("one", big()))
    fix = "use parallelism pipeline: 2 with tensor: 4"
    message = read_message(admin, "one", "Schedulable", "False", f"needs 8 {GPU} on one node", fix)
    assert "the largest node has 4" in message
    assert read_message(admin, "one", "Stalled", "True", reason="NoNodeFits") == message
    eventually("its pod waits", lambda: waits(admin, "one"))
    assert undisturbed(admin, "neighbour") == before

    # A node that has them is added. The LLMService does not change.
    generation = admin.get("LLMService", "one")["metadata"]["generation"]
    nodes.add(h100("h100-big", 8))
    [worker] = placed(admin, "one", 1)
    assert (node_of(worker), gpus(worker)) == ("h100-big", 8)
    read_message(admin, "one", "Schedulable", "True", reason="NodesFit")
    read_message(admin, "one", "Stalled", "False")
    assert admin.get("LLMService", "one")["metadata"]["generation"] == generation
    assert undisturbed(admin, "neighbour") == before


def test_pods_are_placed_after_reported_fix_is_applied(admin: Admin) -> None:
    admin.create(service("one", big()))
    read_message(admin, "one", "Schedulable", "False", "pipeline: 2 with tensor: 4")
    fixed = big(parallelism={"pipeline": 2, "tensor": 4})
    admin.merge("LLMService", "one", {"spec": {"models": [fixed]}})
    stages = placed(admin, "one", 2)
    assert [gpus(pod) for pod in stages] == [4, 4]
    assert len({node_of(pod) for pod in stages}) == 2


def test_unmatched_node_selector_is_reported_with_labels_of_nodes(admin: Admin) -> None:
    selector = {PRODUCT: "NVIDIA-H100-80GB-HBM2"}
    admin.create(service("one", small(nodeSelector=selector, tolerations=TOLERATED)))
    message = read_message(
        admin, "one", "Schedulable", "False", f"a node with label {PRODUCT}={selector[PRODUCT]}"
    )
    assert f"nodes have {PRODUCT}={H100}" in message
    assert "change accelerator.nodeSelector" in message
    eventually("its pod waits", lambda: waits(admin, "one"))

    accelerator = {"nodeSelector": {PRODUCT: H100}}
    admin.merge("LLMService", "one", {"spec": {"models": [small(**accelerator, tolerations=TOLERATED)]}})
    [worker] = placed(admin, "one", 1)
    assert node_of(worker).startswith("h100-")


def test_untolerated_taint_is_reported_with_toleration_to_add(admin: Admin, nodes: Nodes) -> None:
    labels = {"pool": "research"}
    nodes.add(FakeNode("reserved-0", gpus=1, labels=labels, taints=("team=research:NoSchedule",)))
    admin.create(service("one", small(nodeSelector=labels)))
    message = read_message(
        admin, "one", "Schedulable", "False", "fits on reserved-0, tainted team=research:NoSchedule"
    )
    eventually("its pod waits", lambda: waits(admin, "one"))

    # The message names the toleration to add, in YAML.
    before, _, after = message.partition("add to accelerator.tolerations ")
    assert before != message
    toleration = yaml.safe_load(after.partition(";")[0])
    admin.merge(
        "LLMService", "one", {"spec": {"models": [small(nodeSelector=labels, tolerations=[toleration])]}}
    )
    [worker] = placed(admin, "one", 1)
    assert node_of(worker) == "reserved-0"


def test_annotation_disables_fit_check_for_nodes_created_on_demand(admin: Admin, nodes: Nodes) -> None:
    manifest = service("one", big())
    admin.create(manifest)
    message = read_message(admin, "one", "Schedulable", "False")
    # The message names the annotation.
    annotation, _, value = message.rpartition(" ")[2].partition("=")
    admin.merge("LLMService", "one", {"metadata": {"annotations": {annotation: value}}})
    read_message(admin, "one", "Schedulable", "Unknown", f"annotation {annotation} is {value}")
    # Now there is a pod that waits, as a cluster autoscaler wants to see it.
    read_message(admin, "one", "Ready", "False", f"Insufficient {GPU}", reason="Unschedulable")
    [waiting] = pods(admin, "one")
    assert not node_of(waiting)
    read_message(admin, "one", "Stalled", "False")

    nodes.add(h100("h100-on-demand", 8))
    [worker] = placed(admin, "one", 1)
    assert worker["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert node_of(worker) == "h100-on-demand"
