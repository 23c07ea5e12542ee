"""A change that needs a second Ray cluster, for which no node has capacity."""

from dataclasses import replace

from daybreak.api.common.conditions import ConditionType
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    WORKER,
    Manifest,
    World,
    manifest,
    message,
    pod,
    ray_service,
    ray_status,
    running,
    unplaced,
)
from tests.unit.llmservice.decide.scenes.sleeping import IDLE, LONG, gate, up, view

OLD, NEW = "chat-aaaaa", "chat-bbbbb"
CLUSTERS = tuple({"metadata": {"name": name}, "spec": {}} for name in (OLD, NEW))
WITHOUT_ROOM = pod(
    "w-new", cluster=NEW, placed=False, ready=False, status=unplaced("0/1 nodes: 1 Insufficient gpu")
)
NEW_HEAD = pod("head-new", cluster=NEW, model=None)


def coming(world: World, app: str = "DEPLOYING", model: str = "UPDATING") -> Manifest:
    """Return the RayService while a second cluster starts."""
    report = ray_status(active=OLD, pending=NEW, ready=True, app=app, models={"tiny": model})
    return ray_service(world.observed.manifest, status=report)


def updating() -> World:
    """Return the world of a serving service with a change in progress."""
    world = up()
    world.edit(manifest(CPU_MODEL, runtime={"image": "ray:2"}, sleep={"afterIdle": "10m"}))
    decision = world.step(
        ray_service=coming(world), ray_clusters=CLUSTERS, pods=(HEAD, WORKER, NEW_HEAD, WITHOUT_ROOM)
    )
    assert gate(decision) == ("Updating", "Open", None)
    return world


def test_idle_service_sleeps_during_blocked_update_and_wakes_updated() -> None:
    world = updating()
    assert gate(world.step(after=60, gateway=IDLE)) == ("Updating", "Open", None), "it has a while"
    assert gate(world.step(after=LONG)) == ("Draining", "Closed", None)
    assert gate(world.step()) == ("Asleep", "Closed", "Workers")
    assert cluster_bounds(world.observed) == {OLD: {"tiny": (0, 0)}, NEW: {"tiny": (0, 0)}}
    assert gate(world.step(pods=(HEAD, NEW_HEAD), gateway=view(held=1))) == ("Waking", "Closed", None)
    assert cluster_bounds(world.observed) == {OLD: {"tiny": (0, 0)}, NEW: {"tiny": (1, 1)}}
    after = running(world, active=NEW)
    worker = pod("w-new", cluster=NEW)
    assert gate(world.step(ray_service=after, pods=(NEW_HEAD, worker), answers={"tiny": True}))[0] == "Awake"


def test_service_with_recent_requests_stays_awake_during_blocked_update() -> None:
    world = updating()
    assert gate(world.step(after=LONG, gateway=view())) == ("Updating", "Open", None)


def test_sleep_waits_for_update_in_progress_for_limited_time() -> None:
    world = updating()
    starting = pod("w-new", cluster=NEW, ready=False)
    decision = world.step(after=660, gateway=IDLE, pods=(HEAD, WORKER, NEW_HEAD, starting))
    assert gate(decision) == ("Updating", "Open", None)
    assert decision.requeue_after is not None, "but not for ever"
    assert gate(world.step(after=decision.requeue_after.total_seconds())) == ("Draining", "Closed", None)


def test_unschedulable_new_head_does_not_prevent_sleep() -> None:
    world = updating()
    lost = pod("head-new", cluster=NEW, model=None, placed=False, ready=False, status=unplaced("0/1 nodes"))
    world.step(pods=(HEAD, WORKER, lost))
    assert gate(world.step(after=LONG, gateway=IDLE))[0] == "Draining"


def test_reconciling_reports_unschedulable_pod_of_second_cluster() -> None:
    world = updating()
    assert "Insufficient gpu" in message(world.step(), ConditionType.RECONCILING)
    world.observed = replace(world.observed, pods=(HEAD, WORKER, NEW_HEAD))
    assert "starting alongside" in message(world.step(), ConditionType.RECONCILING)
