"""A service that fits on no node still creates its pods, because an autoscaler may add nodes."""

from daybreak.api.common.conditions import ConditionType
from tests.unit.llmservice.decide.scenes.services import (
    GPU_MODEL,
    HEAD,
    Manifest,
    World,
    conditions,
    manifest,
    message,
    node,
    pod,
    ray_service,
    ray_status,
    running,
    unplaced,
)
from tests.unit.llmservice.decide.scenes.sleeping import gate, view

MODEL = {**GPU_MODEL, "parallelism": {"tensor": 8}}
NO_GPU = (node("head-pool"),)
LARGE = (*NO_GPU, node("gpu-1", gpus=8))
WAITS = pod(
    model="qwen", placed=False, ready=False, status=unplaced("0/1 nodes are available: 1 Insufficient gpu")
)


def starting(world: World) -> Manifest:
    """Return the RayService while its first cluster starts."""
    return ray_service(world.observed.manifest, status=ray_status(pending="chat-aaaaa"))


def test_service_that_fits_on_no_node_is_applied_and_reported() -> None:
    decision = World(manifest(MODEL), nodes=NO_GPU).step()
    assert decision.apply
    found = conditions(decision)
    assert found["Schedulable"] == "False/NoNodeFits"
    assert found["Ready"] == "False/NoNodeFits"
    assert found["Stalled"] == "True/NoNodeFits"
    report = message(decision)
    assert "needs 8 nvidia.com/gpu" in report
    assert message(decision, ConditionType.SCHEDULABLE) == report == message(decision, ConditionType.STALLED)


def test_service_recovers_when_fitting_node_is_added() -> None:
    world = World(manifest(MODEL), nodes=NO_GPU, gateway=view())
    world.step()
    waits = world.step(ray_service=starting(world), pods=(HEAD, WAITS))
    assert conditions(waits)["Stalled"] == "True/NoNodeFits"
    assert gate(waits) == ("Failed", "Failed", None), "nobody is held for a node that may never come"
    assert world.step(after=3600).status == waits.status, "nothing changes by itself"
    comes = world.step(nodes=LARGE)
    assert conditions(comes)["Schedulable"] == "True/NodesFit"
    assert conditions(comes)["Stalled"] == "False/Reconciled"
    assert conditions(comes)["Reconciling"] == "True/Progressing"
    assert gate(comes)[:2] == ("Waking", "Closed"), "from now on they are held"
    worker = pod(model="qwen", gpus=8)
    opened = world.step(ray_service=running(world), pods=(HEAD, worker), answers={"qwen": True})
    assert conditions(opened)["Ready"] == "True/Serving"
    assert gate(opened)[:2] == ("Awake", "Open")


def test_head_that_fits_on_no_node_is_reported() -> None:
    world = World(manifest(runtime={"head": {"resources": {"cpu": "1000"}}}), nodes=NO_GPU)
    decision = world.step()
    assert decision.apply
    assert conditions(decision)["Stalled"] == "True/NoNodeFits"
    assert message(decision).startswith("head: ")
