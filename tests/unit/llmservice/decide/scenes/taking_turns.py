"""A service on one GPU that shares it with others."""

from datetime import timedelta

from daybreak.scheduling.claim import Turn
from tests.unit.llmservice.decide.scenes.services import GPU_MODEL, HEAD, World, manifest, pod, running
from tests.unit.llmservice.decide.scenes.services import ray_service as made
from tests.unit.llmservice.decide.scenes.sleeping import gate, view
from tests.unit.llmservice.decision import Decision

GIVES_WAY = {"qwen": Turn(gives_way_to="default/other")}
COMES_AFTER = {"qwen": Turn(after=("default/other", "default/third", "default/fourth"))}
CLUSTER = ({"metadata": {"name": "chat-aaaaa"}, "spec": {}},)
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
           "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
           "lastTransitionTime": "2026-11-21T12:00:10Z"}  # fmt: skip


def up(**sleep: str) -> World:
    """Return a service on one GPU that has been awake for a minute."""
    world = World(manifest(GPU_MODEL, sleep={"afterIdle": "10m", **sleep}), gateway=view())
    world.step()
    worker = pod("w-1", model="qwen", gpus=1)
    world.step(ray_service=running(world), pods=(HEAD, worker), answers={"qwen": True})
    assert gate(world.step(after=60)) == ("Awake", "Open", None)
    return world


def idle(seconds: float, world: World, **more: object) -> Decision:
    """Step the world after the service has received no requests for the given number of seconds."""
    return world.step(gateway=view(idle=timedelta(seconds=seconds)), **more)  # type: ignore[arg-type]


def waking() -> World:
    """Return a waking service whose pod cannot be scheduled."""
    world = World(manifest(GPU_MODEL, sleep={"afterIdle": "10m"}), gateway=view(held=1))
    world.step()
    worker = pod("w-1", model="qwen", ready=False, placed=False, status={"conditions": [NO_ROOM]})
    world.step(ray_service=made(world.observed.manifest), ray_clusters=CLUSTER, pods=(HEAD, worker))
    return world


def after(decision: Decision) -> list[str] | None:
    """Return the workloads that the status lists ahead of the model in the accelerator queue."""
    assert decision.status.gate is not None
    [found] = decision.status.gate.models
    return found.queued_behind
