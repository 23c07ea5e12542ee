"""Checks whether replicas fit on the nodes: each cause has its own message with numbers and a fix."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.schema.scalars import parse_quantity
from daybreak.scheduling import fit
from daybreak.scheduling.nodes import Node
from tests.unit.llmservice.decide.scenes.services import (
    GPU_MODEL,
    Manifest,
    manifest,
    node,
    ray_service,
    service,
)

TAINT = {"key": "dedicated", "value": "llm", "effect": "NoSchedule"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def model(**fields: Any) -> Manifest:
    return {**GPU_MODEL, **fields}


def read_message(nodes: tuple[Node, ...], *models: Manifest, **spec: Any) -> str:
    """Return the messages of the check, or an empty string if the models fit."""
    found = fit.fit(service(*(models or (model(),)), **spec).workload, nodes)
    return "\n".join(misfit.message for misfit in found)


HEAD_NODE = node("head", cpu="4", memory="16Gi")


@pytest.mark.parametrize(
    ("nodes", "fields"),
    [
        ((node(gpus=1),), {}),
        ((HEAD_NODE, node("node-b", gpus=4)), {"parallelism": {"tensor": 4}}),
        ((node(gpus=8),), {"parallelism": {"tensor": 4, "pipeline": 2}, "placement": "STRICT_PACK"}),
        # Two pods of four devices each, on one node or on two.
        ((node(gpus=8),), {"parallelism": {"tensor": 4, "pipeline": 2}}),
        ((node(gpus=4), node("node-b", gpus=4)), {"parallelism": {"tensor": 4, "pipeline": 2}}),
        ((node(labels={"gpu": "a100"}, gpus=1),), {"accelerator": {"nodeSelector": {"gpu": "a100"}}}),
        (
            (HEAD_NODE, node("node-b", gpus=1, taints=(TAINT,))),
            {"accelerator": {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "llm"}]}},
        ),
        (
            (HEAD_NODE, node("node-b", gpus=1, taints=(TAINT,))),
            {"accelerator": {"tolerations": [{"operator": "Exists"}]}},
        ),
        # What admission adds, what only asks, and what passes.
        ((HEAD_NODE, node("node-b", gpus=1, taints=(GPU_TAINT,))), {}),
        ((node(gpus=1, taints=({"key": "slow", "effect": "PreferNoSchedule"},)),), {}),
        ((node(gpus=1, taints=({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},)),), {}),
        ((node(gpus=1, resource="amd.com/gpu"),), {"accelerator": {"resource": "amd.com/gpu"}}),
        ((node(cpu="4", memory="16Gi"),), {"accelerator": {"kind": "cpu"}}),
    ],
)
def test_model_that_fits_on_nodes_is_not_reported(nodes: tuple[Node, ...], fields: dict[str, Any]) -> None:
    assert read_message(nodes, model(**fields)) == ""


@pytest.mark.parametrize(
    ("nodes", "fields", "desired"),
    [
        pytest.param(
            (HEAD_NODE,),
            {},
            "model qwen: a replica needs 1 nvidia.com/gpu; no node has that resource: install the device "
            "plugin that announces it, or use accelerator kind: cpu for a small model",
            id="no device at all",
        ),
        pytest.param(
            (node(gpus=2, resource="amd.com/gpu"),),
            {},
            "model qwen: a replica needs 1 nvidia.com/gpu; no node has that resource: set "
            "accelerator.resource to a resource that nodes have (amd.com/gpu)",
            id="another maker's device",
        ),
        pytest.param(
            (node(gpus=4), node("node-b", gpus=4), node("node-c", gpus=2)),
            {"parallelism": {"tensor": 8}},
            "model qwen: a replica needs 8 nvidia.com/gpu on one node; the largest node has 4 (node-a): "
            "use parallelism pipeline: 2 with tensor: 4",
            id="too many on one node",
        ),
        pytest.param(
            (node(gpus=4), node("node-b", gpus=4)),
            {"parallelism": {"tensor": 4, "pipeline": 2}, "placement": "STRICT_PACK"},
            "model qwen: a replica needs 8 nvidia.com/gpu on one node; the largest node has 4 (node-a): "
            "use placement: PACK, which gives each pipeline stage a separate pod",
            id="stages that could part",
        ),
        pytest.param(
            (node(gpus=4), node("node-b", gpus=1)),
            {"parallelism": {"tensor": 8}},
            "model qwen: a replica needs 8 nvidia.com/gpu on one node; the largest node has 4 (node-a): "
            "all nodes together have 5: use a smaller parallelism, or other nodes",
            id="not enough anywhere",
        ),
        pytest.param(
            (node(gpus=4), node("node-b", gpus=2)),
            {"parallelism": {"tensor": 4, "pipeline": 2}},
            "model qwen: a replica needs 2 pods of 5 cpu, 72Gi memory, 4 nvidia.com/gpu each; all nodes "
            "together have capacity for 1: use a smaller parallelism.pipeline, or add nodes",
            id="too few places for the stages",
        ),
        pytest.param(
            (node(gpus=8, labels={"gpu": "a100-80g"}), node("node-b", gpus=8, labels={"gpu": "l4"})),
            {"accelerator": {"nodeSelector": {"gpu": "a100"}}},
            "model qwen: a replica needs a node with label gpu=a100; nodes have gpu=a100-80g: "
            "change accelerator.nodeSelector",
            id="nearest value of a label",
        ),
        pytest.param(
            (node(gpus=8, labels={"example.com/gpu-kind": "a100"}),),
            {"accelerator": {"nodeSelector": {"example.com/gpukind": "a100"}}},
            "model qwen: a replica needs a node with label example.com/gpukind=a100; no node has a label "
            "example.com/gpukind (did you mean example.com/gpu-kind?): change accelerator.nodeSelector, or "
            "label a node",
            id="nearest label",
        ),
        pytest.param(
            (node(gpus=8, labels={"gpu": "a100"}), node("node-b", labels={"zone": "b"})),
            {"accelerator": {"nodeSelector": {"gpu": "a100", "zone": "b"}}},
            "model qwen: a replica needs a node with gpu=a100 and zone=b; node-a lacks zone=b: "
            "change accelerator.nodeSelector, or label a node",
            id="labels on different nodes",
        ),
        pytest.param(
            (node(labels={"zone": "b"}), node("node-b", gpus=8)),
            {"accelerator": {"nodeSelector": {"zone": "b"}}},
            "model qwen: a replica needs 1 nvidia.com/gpu; the nodes that match nodeSelector have none: "
            "change accelerator.nodeSelector",
            id="labels of nodes without devices",
        ),
        pytest.param(
            (HEAD_NODE, node("node-b", gpus=8, taints=(TAINT,)), node("node-c", gpus=8, taints=(TAINT,))),
            {},
            "model qwen: a replica fits on node-b and 1 more, tainted dedicated=llm:NoSchedule: add to "
            "accelerator.tolerations {key: dedicated, operator: Equal, value: llm, effect: NoSchedule}",
            id="tainted",
        ),
        pytest.param(
            (
                HEAD_NODE,
                node("node-b", gpus=8, taints=(TAINT, {"key": "x", "effect": "NoExecute"}, GPU_TAINT)),
            ),
            {},
            "model qwen: a replica fits on node-b, tainted dedicated=llm:NoSchedule, x:NoExecute: add to "
            "accelerator.tolerations {key: dedicated, operator: Equal, value: llm, effect: NoSchedule}, "
            "{key: x, operator: Exists, effect: NoExecute}",
            id="tainted twice",
        ),
        pytest.param(
            (HEAD_NODE, node("node-b", gpus=8, taints=(TAINT,))),
            {"accelerator": {"tolerations": [{"key": "dedicated", "value": "web"}]}},
            "model qwen: a replica fits on node-b, tainted dedicated=llm:NoSchedule: add to "
            "accelerator.tolerations {key: dedicated, operator: Equal, value: llm, effect: NoSchedule}",
            id="another value tolerated",
        ),
        pytest.param(
            (HEAD_NODE, node("node-b", gpus=8, taints=(TAINT,))),
            {
                "accelerator": {
                    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]
                }
            },
            "model qwen: a replica fits on node-b, tainted dedicated=llm:NoSchedule: add to "
            "accelerator.tolerations {key: dedicated, operator: Equal, value: llm, effect: NoSchedule}",
            id="another effect tolerated",
        ),
        pytest.param(
            (HEAD_NODE, node("node-b", gpus=8, cordoned=True)),
            {},
            "model qwen: a replica fits on node-b, closed for new pods: kubectl uncordon node-b",
            id="cordoned",
        ),
        pytest.param(
            (node(gpus=8, memory="64Gi"), node("node-b", gpus=2, memory="512Gi")),
            {"parallelism": {"tensor": 8}},
            "model qwen: a replica needs 136Gi memory in addition to its 8 nvidia.com/gpu on one node; "
            "the nearest, node-a, has 64Gi memory in all: lower resources.memory, or use a larger node",
            id="too little memory",
        ),
        pytest.param(
            (node(gpus=8, cpu="6", memory="64Gi"), node("node-b", gpus=2)),
            {"parallelism": {"tensor": 8}},
            "model qwen: a replica needs 9 cpu and 136Gi memory in addition to its 8 nvidia.com/gpu on one "
            "node; the nearest, node-a, has 6 cpu and 64Gi memory in all: lower resources.cpu and "
            "resources.memory, or use a larger node",
            id="too little of both",
        ),
    ],
)
def test_model_that_does_not_fit_is_reported_with_cause_and_fix(
    nodes: tuple[Node, ...], fields: dict[str, Any], desired: str
) -> None:
    assert read_message(nodes, model(**fields)) == desired


def test_pipeline_split_is_advised_only_if_split_fits() -> None:
    # Four devices per node, with memory for half of the pods that would use four devices.
    small = tuple(node(f"node-{number}", gpus=4, memory="45Gi") for number in "abcd")
    assert read_message(small, model(parallelism={"tensor": 8})).endswith(
        "use parallelism pipeline: 4 with tensor: 2"
    )


def test_head_that_does_not_fit_is_reported() -> None:
    head = {"resources": {"cpu": "2", "memory": "8Gi"}, "nodeSelector": {"role": "head"}}
    nodes = (node(gpus=1), node("node-b", cpu="2", memory="16Gi", labels={"role": "head"}))
    assert read_message(nodes, runtime={"head": head}) == (
        "head: it needs 2.1 cpu on one node; the nearest, node-b, has 2 cpu in all: "
        "lower spec.runtime.head.resources.cpu, or use a larger node"
    )
    assert read_message((), runtime={"head": head}).startswith("head: the cluster has no nodes")


def test_assumed_autoscaler_resources_equal_those_of_built_head() -> None:
    """The autoscaler's share of the head's pod is defined in two places."""
    config = ray_service(manifest())["spec"]["rayClusterConfig"]
    requested = config["autoscalerOptions"]["resources"]["requests"]
    assert parse_quantity(requested["cpu"]) == fit.AUTOSCALER_CPU
    assert parse_quantity(requested["memory"]) == fit.AUTOSCALER_MEMORY


def test_only_model_that_does_not_fit_is_reported() -> None:
    models = [model(), model(name="large", parallelism={"tensor": 16}), model(name="other")]
    found = fit.fit(service(*models).workload, (node(gpus=8),))
    assert [misfit.model for misfit in found] == ["large"]


def test_unreadable_quantities_count_as_zero() -> None:
    odd = Node("odd", {}, ({"effect": 3},), {"cpu": "64", "memory": "1Ei", "nvidia.com/gpu": "many"})
    assert "no node has that resource" in read_message((odd,))


def test_fit_result_changes_with_nodes() -> None:
    """Cached results for one set of nodes do not apply to another set."""
    assert read_message((node(gpus=1),)) == ""
    assert "no node has that resource" in read_message((node(),))
    assert read_message((node(gpus=1),)) == ""


def with_pod(spec: Manifest, **fields: Any) -> Manifest:
    """Return a model with the given pod spec in its `podTemplate`."""
    return model(podTemplate={"spec": spec}, **fields)


def ray(**resources: Any) -> Manifest:
    """Return a pod whose Ray container has limits of these resources."""
    return {"containers": [{"name": "ray", "resources": {"limits": resources}}]}


def helper(name: str = "helper", **fields: Any) -> Manifest:
    return {"name": name, "image": "helper:1", **fields}


def asks(memory: str) -> Manifest:
    return {"resources": {"requests": {"memory": memory}}}


ROOM = node(gpus=1, cpu="8", memory="64Gi")
"""The node has capacity for a head (4.5Gi) and a worker (24Gi)."""


def test_extra_resources_of_ray_container_are_required() -> None:
    fabric = replace(ROOM, name="node-b", allocatable={**ROOM.allocatable, "rdma/hca": "1"})
    assert read_message((ROOM, fabric), with_pod(ray(**{"rdma/hca": 1}))) == ""
    found = read_message((ROOM,), with_pod(ray(**{"rdma/hca": 1})))
    assert "needs 1 rdma/hca" in found
    assert "has 0 rdma/hca in all: lower rdma/hca in podTemplate" in found


def test_cpu_limit_does_not_count_as_request() -> None:
    assert read_message((ROOM,), with_pod(ray(cpu=100), resources={"cpu": "2"})) == ""


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"containers": [helper(**asks("30Gi"))]}, True),
        ({"containers": [helper(**asks("50Gi"))]}, False),
        ({"containers": [helper(resources={"limits": {"memory": "50Gi"}})]}, False),
        # Runs before the others, so only the larger of both counts.
        ({"initContainers": [helper(**asks("60Gi"))]}, True),
        ({"initContainers": [helper(**asks("65Gi"))]}, False),
        # Runs alongside the others from then on.
        ({"initContainers": [helper(**asks("50Gi"), restartPolicy="Always")]}, False),
        (
            {
                "initContainers": [
                    helper("one", **asks("30Gi"), restartPolicy="Always"),
                    helper("two", **asks("40Gi")),
                ]
            },
            False,
        ),
        (
            {
                "initContainers": [
                    helper("two", **asks("40Gi")),
                    helper("one", **asks("30Gi"), restartPolicy="Always"),
                ]
            },
            True,
        ),
    ],
)
def test_memory_of_other_containers_is_counted(spec: Manifest, fits: bool) -> None:
    assert (read_message((ROOM,), with_pod(spec)) == "") is fits


def test_memory_of_other_head_containers_is_counted() -> None:
    spec = {"containers": [helper(**asks("62Gi"))]}
    found = read_message((ROOM,), runtime={"head": {"podTemplate": {"spec": spec}}})
    assert found.startswith("head: it needs 66.5Gi memory on one node")


def test_node_selector_and_tolerations_of_pod_template_are_applied() -> None:
    labelled = node(labels={"rack": "a"}, gpus=1, taints=(TAINT,))
    spec = {"nodeSelector": {"rack": "a"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    assert read_message((HEAD_NODE, labelled), with_pod(spec)) == ""
    assert "no node has a label rack" in read_message((HEAD_NODE, node(gpus=1)), with_pod(spec))


def test_taints_are_ignored_if_runtime_class_is_set() -> None:
    tainted = node("node-b", gpus=1, taints=(TAINT,))
    assert "tainted dedicated" in read_message((HEAD_NODE, tainted))
    assert read_message((HEAD_NODE, tainted), with_pod({"runtimeClassName": "nvidia"})) == ""


def test_unchecked_pod_fields_exclude_no_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    spec = {
        "schedulerName": "volcano",
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        },
        "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nic"}],
    }
    assert read_message((ROOM,), with_pod(spec)) == ""


def test_accelerators_of_resource_claim_are_not_counted_on_nodes() -> None:
    plain = node(cpu="16", memory="256Gi")
    claim = {"templateName": "gpus", "devices": 4}
    assert read_message((plain,), model(parallelism={"tensor": 4}, accelerator={"claim": claim})) == ""
    assert "nvidia.com/gpu" in read_message((plain,), model(parallelism={"tensor": 4}))
    small = node(cpu="16", memory="32Gi")
    found = read_message((small,), model(parallelism={"tensor": 4}, accelerator={"claim": claim}))
    assert found.startswith("model qwen: a replica needs 72Gi memory on one node")
