"""Placement of a server's pods on the nodes, and the condition that reports it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.scheduling.nodes import Node
from tests.unit.llmservice.decide.scenes.services import node
from tests.unit.modelserver.decision import Decision, decide
from tests.unit.modelserver.servers import ASKED, observe
from tests.unit.modelserver.test_decision import HELD, after, asleep, awake

COMES = "; if nodes are added on demand, annotate the ModelServer with daybreak.dev/fit-check=off"
ONE_GPU = node("l4-0", gpus=1)
SMALL = node("small", cpu="100m", memory="64Mi")
GPU: dict[str, Any] = {"accelerator": {"kind": "gpu"}}


def look(nodes: tuple[Node, ...] | None, /, **spec: Any) -> Decision:
    """Return the first decision on a server, with these nodes."""
    return decide(observe(None, traffic=ASKED, nodes=nodes, spec=spec))


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    """Return the status and reason of each condition."""
    return {each.type: (each.status, each.reason) for each in decision.status.conditions}


def message(decision: Decision) -> str:
    """Return the message of the condition `Schedulable`."""
    return next(each.message for each in decision.status.conditions if each.type == "Schedulable")


def limits(cpu: str, **container: str) -> dict[str, Any]:
    """Return a template with a container's CPU limit."""
    limited = {**container, "resources": {"limits": {"cpu": cpu}}}
    return {"podTemplate": {"spec": {"containers": [limited]}}}


@pytest.mark.parametrize(
    ("nodes", "spec"),
    [
        ((node("cpu-0", cpu="4", memory="16Gi"),), {}),
        ((ONE_GPU,), GPU),
        ((node("a", gpus=1), node("b", gpus=1)), {**GPU, "parallelism": {"tensor": 2}, "nodes": 2}),
        (
            (node("l4-0", gpus=1, labels={"pool": "l4"}),),
            {"accelerator": {"kind": "gpu", "nodeSelector": {"pool": "l4"}}},
        ),
    ],
)
def test_server_that_fits_on_nodes_is_schedulable(nodes: tuple[Node, ...], spec: dict[str, Any]) -> None:
    found = look(nodes, **spec)
    assert conditions(found)["Schedulable"] == ("True", "NodesFit")
    assert message(found) == "the pods of a replica fit on the nodes"
    assert conditions(found)["Stalled"] == ("False", "Reconciled")


@pytest.mark.parametrize(
    ("nodes", "spec", "desired"),
    [
        pytest.param(
            (node("cpu-0"),),
            GPU,
            "model tiny: a replica needs 1 nvidia.com/gpu; no node has that",
            id="device",
        ),
        pytest.param(
            (ONE_GPU,),
            {**GPU, "parallelism": {"tensor": 2}},
            "model tiny: a replica needs 2 nvidia.com/gpu on one node; the largest node has 1 (l4-0): "
            "set nodes: 2",
            id="devices on one node",
        ),
        pytest.param(
            (ONE_GPU,),
            {**GPU, "parallelism": {"tensor": 2}, "nodes": 2},
            "model tiny: a replica needs 2 pods of ",
            id="pods of one replica",
        ),
        pytest.param(
            (ONE_GPU,),
            {"accelerator": {"kind": "gpu", "nodeSelector": {"pool": "a"}}},
            "model tiny: a replica needs a node with label pool=a; no node has a label pool",
            id="label",
        ),
        pytest.param(
            (node("l4-0", gpus=1, taints=({"key": "mine", "effect": "NoSchedule"},)),),
            GPU,
            "model tiny: a replica fits on l4-0, tainted mine:NoSchedule: add to accelerator.tolerations",
            id="taint",
        ),
        pytest.param(
            (node("cpu-0", cpu="4", memory="16Gi"),),
            {"resources": {"memory": "64Gi"}},
            "model tiny: a replica needs ",
            id="memory",
        ),
    ],
)
def test_server_that_fits_on_no_node_is_applied_and_stalled(
    nodes: tuple[Node, ...], spec: dict[str, Any], desired: str
) -> None:
    found = look(nodes, **spec)
    assert found.apply, "its pods wait, as an autoscaler wants to see them"
    assert conditions(found)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(found)["Ready"] == ("False", "NoNodeFits")
    assert conditions(found)["Stalled"] == ("True", "NoNodeFits")
    assert message(found).startswith(desired)
    assert message(found).endswith(COMES)


def test_a_limit_of_the_engines_own_container_is_not_counted_twice() -> None:
    nodes = (node("cpu-0", cpu="8"),)
    spec = {"resources": {"cpu": "5"}}
    assert conditions(look(nodes, **spec, **limits("6", name="engine")))["Schedulable"] == (
        "True",
        "NodesFit",
    )
    beside = look(nodes, **spec, **limits("6", name="beside", image="i:1"))
    assert conditions(beside)["Schedulable"] == ("False", "NoNodeFits")


def test_serving_server_that_fits_on_no_node_stays_ready() -> None:
    found = decide(replace(awake(), nodes=(SMALL,)))
    assert conditions(found)["Ready"] == ("True", "Serving")
    assert conditions(found)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")


def test_missing_nodes_stall_waking_server_only_after_hold_time() -> None:
    one = replace(asleep(), nodes=(SMALL,))
    found = decide(one)
    assert conditions(found)["Ready"] == ("True", "Asleep")
    assert conditions(found)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")
    held = replace(one, gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    waking = after(decide(held), held)
    assert conditions(decide(waking))["Ready"] == ("True", "Waking"), "its pods may bring a node"
    assert conditions(decide(waking))["Stalled"] == ("False", "Reconciled")
    late = replace(waking, now=waking.now + timedelta(hours=1))
    assert conditions(decide(late))["Stalled"] == ("True", "NoNodeFits")


def test_stalled_server_recovers_when_node_is_added() -> None:
    first = observe(None, traffic=ASKED, nodes=(SMALL,))
    stalled = after(decide(first), first, nodes=(node("large"),))
    assert conditions(decide(stalled))["Schedulable"] == ("True", "NodesFit")
    assert conditions(decide(stalled))["Stalled"] == ("False", "Reconciled")


def test_schedulable_is_unknown_without_nodes_or_with_fit_check_off() -> None:
    found = look(None, **GPU)
    assert conditions(found)["Schedulable"] == ("Unknown", "NodesUnknown")
    off = {"daybreak.dev/fit-check": "off"}
    found = decide(observe(traffic=ASKED, nodes=(node("cpu-0"),), spec=GPU, annotations=off))
    assert conditions(found)["Schedulable"] == ("Unknown", "NodesUnknown")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")
    assert "daybreak.dev/fit-check is off" in message(found)


def test_invalid_spec_is_not_checked_against_nodes() -> None:
    found = look((ONE_GPU,), engineArgs={"max_model_length": 1})
    assert conditions(found)["Schedulable"] == ("Unknown", "InvalidSpec")
