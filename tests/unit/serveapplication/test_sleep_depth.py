"""Sleep depths of an application: it releases its workers and keeps the head, or its whole Ray cluster."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from daybreak.scheduling.claim import Turn
from tests.unit.serveapplication.applications import HELD
from tests.unit.serveapplication.rolling import FIRST, QUIET, SECOND, SETTLED, Rolling

IDLE = 7200


def deployments(ray: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the Serve settings of each deployment."""
    assert ray is not None
    [app] = yaml.safe_load(ray["spec"]["serveConfigV2"])["applications"]
    return {each["name"]: each for each in app["deployments"]}


@pytest.fixture
async def world() -> Rolling:
    """Return a running application that releases its workers in sleep."""
    made = await Rolling(sleep={"afterIdle": "15m"}).up()
    made.pods("headgroup", "cpu")
    await made.steps()
    return made


async def asleep(world: Rolling) -> Rolling:
    """Let the application fall asleep."""
    world.traffic = QUIET
    await world.steps(IDLE)
    world.serves()
    world.pods("headgroup")
    await world.steps()
    assert world.gate == ("Asleep", "Closed")
    return world


async def test_sleeping_application_keeps_head_and_releases_workers(world: Rolling) -> None:
    before = world.ray
    await asleep(world)
    assert before is not None
    assert world.ray is not None
    assert world.status is not None
    assert world.status["gate"]["models"][0]["sleepDepth"] == "Workers"
    assert world.bounds == {FIRST: {"cpu": (0, 0)}}
    scaling = {"min_replicas": 0, "initial_replicas": 0, "max_replicas": 1}
    for each in deployments(world.ray).values():
        assert each["autoscaling_config"] == scaling
    [group] = world.ray["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"]) == (0, 0)
    assert world.ray["metadata"]["annotations"] == before["metadata"]["annotations"], "nothing is rebuilt"
    budget = world.desired("PodDisruptionBudget")
    assert budget is not None
    assert budget["spec"]["minAvailable"] == 0, "the head may be drained"
    assert world.condition("Ready")[:2] == ("True", "Asleep")
    active = world.condition("Active")
    assert active[:2] == ("False", "Asleep")
    assert "only the Ray head" in active[2]


async def test_application_is_active_only_when_its_pods_are_placed(world: Rolling) -> None:
    world.pods("headgroup", "cpu", ready=False, placed=False)
    await world.steps(1)
    assert world.condition("Active") == ("False", "Starting", "its pods wait for a node")
    world.pods("headgroup", "cpu", ready=False)
    await world.steps(1)
    assert world.condition("Active")[:2] == ("True", "Awake")


async def test_waking_application_opens_gate_only_when_replicas_are_ready(world: Rolling) -> None:
    await asleep(world)
    world.traffic = HELD
    await world.steps(1)
    assert world.gate == ("Waking", "Closed")
    assert deployments(world.ray)["Pipeline"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 1}
    assert world.bounds == {FIRST: {"cpu": (1, 2)}}

    world.serves()
    await world.steps(1)
    assert world.gate == ("Waking", "Closed"), "RUNNING is what it said all the time"
    world.pods("headgroup", "cpu", ready=False)
    await world.steps(1)
    assert world.gate == ("Waking", "Closed")
    world.pods("headgroup", "cpu")
    assert world.ray is not None
    app = world.ray["status"]["activeServiceStatus"]["applicationStatuses"]["app"]
    app["serveDeploymentStatuses"]["Length"]["status"] = "UPSCALING"
    await world.steps(1)
    assert world.gate == ("Waking", "Closed"), "a replica is still starting"
    world.serves()
    await world.steps(1)
    assert world.gate == ("Awake", "Open")


async def test_status_from_before_wake_keeps_gate_closed(world: Rolling) -> None:
    await asleep(world)
    world.traffic = HELD
    world.pods("headgroup", "cpu")
    await world.steps(1)
    assert world.gate == ("Waking", "Closed")


async def test_cluster_is_released_after_longer_idle_time(world: Rolling) -> None:
    world.spec["sleep"] = {"afterIdle": "15m", "clusterAfterIdle": "2h"}
    await asleep(world)
    world.traffic = replace(QUIET, idle=timedelta(hours=3))
    await world.steps(IDLE)
    assert world.status is not None
    assert world.status["gate"]["models"][0]["sleepDepth"] == "Cluster"
    assert world.ray is None


async def test_queued_application_has_no_worker_while_others_are_first(world: Rolling) -> None:
    await asleep(world)
    world.traffic = HELD
    world.more["turns"] = {"pipeline": Turn(after=("default/other",))}
    await world.steps(1)
    assert world.gate == ("Waking", "Closed")
    assert world.bounds == {FIRST: {"cpu": (0, 0)}}
    assert deployments(world.ray)["Pipeline"]["autoscaling_config"]["max_replicas"] == 1
    world.more["turns"] = {}
    await world.steps(1)
    assert world.bounds == {FIRST: {"cpu": (1, 2)}}


async def test_changed_image_recreates_sleeping_cluster_without_second_head(world: Rolling) -> None:
    await asleep(world)
    world.spec["runtime"] = {"image": "ray:2"}
    await world.step(1)
    await world.step(1)
    assert world.ray is None, "the one that is there goes first"
    await world.steps(1)
    assert world.ray is not None
    head = world.ray["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["image"] == "ray:2"
    assert deployments(world.ray)["Length"]["autoscaling_config"]["max_replicas"] == 1
    world.traffic = HELD
    await world.steps(1)
    world.serves(SECOND)
    world.pods("headgroup", "cpu")
    await world.steps(SETTLED)
    assert world.gate == ("Awake", "Open")
    assert world.rollout == ("Complete", 2)
