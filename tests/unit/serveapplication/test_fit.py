"""Placement of an application's pods on the nodes, and the condition that reports it."""

from datetime import timedelta
from typing import Any

import pytest

from daybreak.scheduling.nodes import Node
from tests.unit.llmservice.decide.scenes.services import node
from tests.unit.serveapplication.applications import ASKED, HELD, NOW, QUIET, application, live, observe
from tests.unit.serveapplication.decision import Decision, decide
from tests.unit.serveapplication.test_decision import after, conditions

HEAD_NODE = node("head", cpu="4", memory="16Gi")
ONE_GPU = node("l4-0", gpus=1)
OFF = {"daybreak.dev/fit-check": "off"}
COMES = "; if nodes are added on demand, annotate the ServeApplication with daybreak.dev/fit-check=off"


def shared(*shares: float, **more: Any) -> dict[str, Any]:
    """Return deployments that share the pods of one worker group."""
    found = [
        {"name": name, "accelerators": share, "workerGroup": "models"} | more
        for name, share in zip(("Mood", "Length", "Rank"), shares, strict=False)
    ]
    return {"deployments": found}


def look(nodes: tuple[Node, ...] | None, ray: Any = None, **spec: Any) -> Decision:
    """Return the first decision on an application, with these nodes."""
    return decide(observe(ray=ray, traffic=ASKED, nodes=nodes, spec=spec))


def schedulable(decision: Decision) -> str:
    """Return the message of the condition `Schedulable`."""
    return next(each.message for each in decision.status.conditions if each.type == "Schedulable")


@pytest.mark.parametrize(
    ("nodes", "spec"),
    [
        ((HEAD_NODE,), {}),
        ((HEAD_NODE, ONE_GPU), shared(0.5, 0.5)),
        ((HEAD_NODE, ONE_GPU), shared(0.3, 0.3, 0.4)),
        ((HEAD_NODE, node("l4-0", gpus=2)), shared(0.75, 0.75)),
        (
            (HEAD_NODE, node("l4-0", gpus=1, labels={"pool": "l4"})),
            {**shared(0.5), "accelerator": {"nodeSelector": {"pool": "l4"}}},
        ),
    ],
)
def test_application_that_fits_is_schedulable(nodes: tuple[Node, ...], spec: dict[str, Any]) -> None:
    found = look(nodes, **spec)
    assert conditions(found)["Schedulable"] == ("True", "NodesFit")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")


@pytest.mark.parametrize(
    ("nodes", "spec", "desired"),
    [
        pytest.param(
            (HEAD_NODE,),
            shared(0.5),
            "worker group models: a pod with a replica of Mood (0.5 accelerators), rounded up to whole "
            "devices, needs 1 nvidia.com/gpu; no node has that resource: install the device plugin that "
            "announces it, or leave accelerators out of its deployments",
            id="a fraction, and no device at all",
        ),
        pytest.param(
            (HEAD_NODE, node("a", gpus=1, resource="amd.com/gpu")),
            shared(0.5),
            "worker group models: a pod with a replica of Mood (0.5 accelerators), rounded up to whole "
            "devices, needs 1 nvidia.com/gpu; no node has that resource: set spec.accelerator.resource to "
            "a resource that nodes have (amd.com/gpu)",
            id="another maker's device",
        ),
        pytest.param(
            (HEAD_NODE, ONE_GPU),
            shared(0.75, 0.75),
            "worker group models: a pod with a replica each of Mood (0.75 accelerators) and Length (0.75), "
            "rounded up to whole devices, needs 2 nvidia.com/gpu on one node; the largest node has 1 (l4-0): "
            "give its deployments separate worker groups, of which the largest pod needs 1",
            id="two deployments in one pod",
        ),
        pytest.param(
            (HEAD_NODE, ONE_GPU),
            {"deployments": [{"name": "Mood", "accelerators": 4}]},
            "worker group mood-780fe4: a pod with a replica of Mood (4 accelerators) needs 4 nvidia.com/gpu "
            "on one node; the largest node has 1 (l4-0): all nodes together have 1: lower accelerators of "
            "its deployments, or other nodes",
            id="more than any node has",
        ),
        pytest.param(
            (HEAD_NODE, ONE_GPU),
            {
                "deployments": [
                    {
                        "name": "Mood",
                        "placementGroup": {"bundles": [{"accelerators": 1}, {"accelerators": 1}]},
                        "workerGroup": "models",
                    }
                ]
            },
            "worker group models: a pod with a replica of Mood (2 accelerators) needs 2 nvidia.com/gpu on "
            "one node; the largest node has 1 (l4-0): set placementGroup.strategy: SPREAD, with which the "
            "largest pod needs 1",
            id="bundles that are packed",
        ),
        pytest.param(
            (HEAD_NODE, ONE_GPU),
            {
                **shared(0.5),
                "workerGroups": [{"name": "models", "cpu": "2", "memory": "8Gi", "accelerators": 2}],
            },
            "worker group models: a pod needs 2 nvidia.com/gpu on one node; the largest node has 1 (l4-0): "
            "lower spec.workerGroups[models].accelerators to 1, which is what its deployments need",
            id="a group that is written out",
        ),
        pytest.param(
            (HEAD_NODE, node("l4-0", gpus=1, memory="16Gi", cpu="64")),
            shared(0.5, 0.5),
            "worker group models: a pod with a replica each of Mood (0.5 accelerators) and Length (0.5) "
            "needs 20Gi memory in addition to its 1 nvidia.com/gpu on one node; the nearest, l4-0, "
            "has 16Gi memory in all: lower memory of its deployments, or use a larger node",
            id="memory",
        ),
        pytest.param(
            (HEAD_NODE, node("l4-0", gpus=1, labels={"pool": "l4"})),
            {**shared(0.5), "accelerator": {"nodeSelector": {"pool": "l5"}}},
            "worker group models: a pod with a replica of Mood (0.5 accelerators), rounded up to whole "
            "devices, needs a node with label pool=l5; nodes have pool=l4: change "
            "spec.accelerator.nodeSelector",
            id="a label",
        ),
        pytest.param(
            (node(cpu="200m"),),
            {"deployments": [{"name": "Pipeline", "cpu": "100m"}]},
            "head: it needs ",
            id="the head",
        ),
        pytest.param(
            (HEAD_NODE,),
            {"deployments": [{"name": "Pipeline", "cpu": "8"}]},
            "worker group cpu: a pod with a replica of Pipeline needs 8 cpu on one node; the nearest, head, "
            "has 4 cpu in all: lower cpu of its deployments, or use a larger node",
            id="cores",
        ),
    ],
)
def test_application_that_does_not_fit_is_reported_but_created(
    nodes: tuple[Node, ...], spec: dict[str, Any], desired: str
) -> None:
    found = look(nodes, **spec)
    assert found.apply, "its pods wait, as an autoscaler wants to see them"
    assert conditions(found)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(found)["Ready"] == ("False", "NoNodeFits")
    assert conditions(found)["Stalled"] == ("True", "NoNodeFits")
    assert conditions(found)["Reconciling"] == ("False", "NoNodeFits")
    message = schedulable(found)
    assert message.startswith(desired)
    assert message.endswith(COMES)


def test_gate_reports_misfit_until_fitting_node_is_added() -> None:
    spec = shared(0.5)
    found = look((HEAD_NODE,), **spec)
    assert found.status.gate is not None
    assert "no node has that resource" in (found.status.gate.models[0].reason or "")
    healed = after(found, live(application(**spec)), nodes=(HEAD_NODE, ONE_GPU), spec=spec)
    assert conditions(healed)["Ready"] == ("True", "Serving")
    assert conditions(healed)["Schedulable"] == ("True", "NodesFit")
    assert conditions(healed)["Stalled"] == ("False", "Reconciled")


def test_serving_application_stays_ready_if_no_node_fits() -> None:
    spec = shared(0.5)
    ray = live(application(**spec))
    found = after(look((HEAD_NODE, ONE_GPU), **spec), ray, nodes=(HEAD_NODE, ONE_GPU), spec=spec)
    found = after(found, ray, nodes=(HEAD_NODE,), spec=spec)
    assert conditions(found)["Ready"] == ("True", "Serving")
    assert conditions(found)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")


def test_waking_application_stalls_for_missing_nodes_after_hold_timeout() -> None:
    spec = {**shared(0.5), "hold": {"timeout": "5m"}}
    ray, later = live(application(**spec)), NOW + timedelta(hours=1)
    awake = after(look((HEAD_NODE, ONE_GPU), **spec), ray, nodes=(HEAD_NODE, ONE_GPU), spec=spec)
    draining = after(awake, ray, QUIET, nodes=(HEAD_NODE,), spec=spec, now=later)
    asleep = after(draining, ray, QUIET, nodes=(HEAD_NODE,), spec=spec, now=later)
    assert conditions(asleep)["Ready"] == ("True", "Asleep")
    assert conditions(asleep)["Schedulable"] == ("False", "NoNodeFits")
    assert conditions(asleep)["Stalled"] == ("False", "Reconciled")
    waking = after(asleep, None, HELD, nodes=(HEAD_NODE,), spec=spec, now=later)
    waking = after(waking, None, HELD, nodes=(HEAD_NODE,), spec=spec, now=later)
    assert conditions(waking)["Ready"] == ("True", "Waking"), "its pods may bring a node"
    assert conditions(waking)["Stalled"] == ("False", "Reconciled")
    late = after(waking, None, HELD, nodes=(HEAD_NODE,), spec=spec, now=later + timedelta(minutes=6))
    assert conditions(late)["Stalled"] == ("True", "NoNodeFits")


def test_schedulable_is_unknown_without_nodes_or_fit_check() -> None:
    found = look(None, **shared(0.5))
    assert conditions(found)["Schedulable"] == ("Unknown", "NodesUnknown")
    assert "may not read nodes" in schedulable(found)
    off = observe(traffic=ASKED, nodes=(HEAD_NODE,), spec=shared(0.5))
    off.manifest["metadata"]["annotations"] = OFF
    found = decide(off)
    assert conditions(found)["Schedulable"] == ("Unknown", "NodesUnknown")
    assert conditions(found)["Stalled"] == ("False", "Reconciled")
    assert "daybreak.dev/fit-check is off" in schedulable(found)


def test_invalid_spec_is_not_checked_for_fit() -> None:
    for spec in ({"importPath": "no colon"}, {"deployments": [{"name": "A"}, {"name": "A"}]}):
        assert conditions(look((HEAD_NODE,), **spec))["Schedulable"] == ("Unknown", "InvalidSpec")
