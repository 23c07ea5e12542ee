"""Initial replicas of a second Ray cluster: the same number as the first one runs."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from daybreak.kinds.llmservice.decide.defaults import choose
from daybreak.ray.pods import head
from tests.unit.llmservice.decide.scenes import sleeping
from tests.unit.llmservice.decide.scenes.services import (
    GPU_MODEL,
    HEAD,
    PLATFORM,
    Manifest,
    World,
    manifest,
    pod,
    ray_status,
)

MODEL = {**GPU_MODEL, "name": "tiny", "replicas": {"max": 8}}
OTHER = {"env": [{"name": "A", "value": "b"}]}
"""Runtime that needs new pods."""


def pods(count: int, cluster: str = "chat-aaaaa") -> tuple[Manifest, ...]:
    """Return a head pod and the given number of running worker pods."""
    return (HEAD, *(pod(f"w-{number}", cluster=cluster) for number in range(count)))


def write(world: World, platform: Any = PLATFORM) -> bool:
    """Apply the operator's write to the RayService. Return True if that is a write."""
    svc, live = world.observed.subject, world.observed.ray_service
    assert svc is not None
    svc = replace(svc, asleep=world.observed.given_back)
    desired = choose(world.observed, svc, platform, live, lambda manifest: False).desired
    assert desired is not None
    status = ray_status(active="chat-aaaaa", ready=True, app="RUNNING", models={"tiny": "HEALTHY"})
    after = {**copy.deepcopy(desired), "status": (live or {}).get("status") or status}
    world.observed = replace(world.observed, ray_service=after)
    return bool([part for part in ("spec", "metadata") if (live or {}).get(part) != after[part]])


def numbers(world: World) -> tuple[int, int | None]:
    """Return the replicas of the worker group, and the initial replicas of Serve."""
    assert world.observed.ray_service is not None
    spec = world.observed.ray_service["spec"]
    [group] = spec["rayClusterConfig"]["workerGroupSpecs"]
    deployments = yaml.safe_load(spec["serveConfigV2"])["applications"][0]["deployments"]
    return group["replicas"], deployments[1]["autoscaling_config"].get("initial_replicas")


def grown(count: int = 5, **spec: Any) -> World:
    """Return the world of a service that has scaled up to the given number of replicas."""
    world = World(manifest(MODEL, **spec))
    world.step()
    assert write(world)
    world.step(pods=pods(count), answers={"tiny": True})
    assert not write(world), "what Serve scales is not written"
    assert numbers(world) == (1, None)
    return world


def edit(world: World, *models: Manifest, **spec: Any) -> bool:
    """Change the number of replicas, as a user does."""
    world.edit(manifest(*(models or (MODEL,)), **spec))
    return write(world)


def test_second_cluster_starts_with_running_number_of_replicas() -> None:
    world = grown(5)
    assert edit(world, runtime=OTHER)
    assert numbers(world) == (5, 5)
    for count in (6, 2, 0):
        world.step(pods=pods(count))
        assert not write(world), "once written it stays"
    world.step(pods=pods(5, cluster="chat-bbbbb"))
    assert not write(world)


def test_second_cluster_starts_with_at_most_max_replicas() -> None:
    world = grown(5)
    assert edit(world, {**MODEL, "replicas": {"max": 3}}, runtime=OTHER)
    assert numbers(world) == (3, 3)


def test_second_cluster_starts_with_fixed_replicas_of_spec() -> None:
    world = grown(5)
    assert edit(world, replicas=2, runtime=OTHER)
    assert numbers(world)[0] == 2


def test_change_in_place_leaves_number_of_replicas_to_serve() -> None:
    world = grown(5)
    assert edit(world, {**MODEL, "serve": {"maxOngoingRequests": 7}})
    assert numbers(world) == (1, None)
    assert edit(world, runtime=OTHER)
    assert numbers(world) == (5, 5)
    assert edit(world, {**MODEL, "serve": {"maxOngoingRequests": 8}}, runtime=OTHER)
    assert numbers(world) == (1, None), "the second cluster serves: what it has come to since is its own"


def test_initial_replicas_are_unchanged_while_second_cluster_starts() -> None:
    world = grown(5)
    assert edit(world, runtime=OTHER)
    both = ray_status(active="chat-aaaaa", pending="chat-bbbbb", ready=True, app="DEPLOYING")
    assert world.observed.ray_service is not None
    world.observed = replace(world.observed, ray_service={**world.observed.ray_service, "status": both})
    assert edit(world, {**MODEL, "serve": {"maxOngoingRequests": 8}}, runtime=OTHER)
    assert numbers(world) == (5, 5)


def test_new_defaults_start_with_running_number_of_replicas() -> None:
    world = grown(5, runtime={"followDefaults": True})
    new = replace(PLATFORM, ray_image="ray:2")
    assert write(world, new)
    assert numbers(world) == (5, 5)
    assert not write(world, new)


def test_initial_replicas_of_pipeline_count_replicas_not_pods() -> None:
    world = World(manifest({**MODEL, "parallelism": {"pipeline": 2}}))
    world.step()
    write(world)
    world.step(pods=pods(6))
    assert edit(world, {**MODEL, "parallelism": {"pipeline": 2}}, runtime=OTHER)
    assert numbers(world) == (6, 3), "pods, and replicas"


def test_service_wakes_with_replicas_of_spec() -> None:
    world = sleeping.up(MODEL)
    write(world)
    world.step(pods=pods(5))
    world.step(after=sleeping.LONG, gateway=sleeping.IDLE)
    world.step()
    assert write(world)
    assert numbers(world) == (0, 0)
    world.step(pods=(HEAD,), gateway=sleeping.view(held=1))
    assert write(world)
    assert numbers(world) == (1, None)


def test_initial_replicas_are_reset_by_sleep() -> None:
    world = sleeping.up(MODEL)
    write(world)
    world.step(pods=pods(5))
    assert edit(world, runtime=OTHER, sleep={"afterIdle": "10m"})
    assert numbers(world) == (5, 5)
    world.step(after=sleeping.LONG, gateway=sleeping.IDLE)
    world.step(after=sleeping.LONG)
    assert world.step().status.sleep_depth == "Workers"
    assert write(world)
    assert numbers(world) == (0, 0)
    world.step(pods=(HEAD,), gateway=sleeping.view(held=1))
    assert write(world)
    assert numbers(world) == (1, None)


def test_upgraded_operator_keeps_ray_service_until_spec_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = grown(5)
    assert edit(world, runtime=OTHER)
    monkeypatch.setattr(head, "ROUTER_TIMEOUT_SECONDS", 7)
    world.step(pods=pods(7))
    svc = world.observed.subject
    assert svc is not None
    choice = choose(world.observed, svc, PLATFORM, world.observed.ray_service, lambda manifest: False)
    assert choice.desired is None
    assert edit(world, {**MODEL, "serve": {"maxOngoingRequests": 8}}, runtime=OTHER)
    assert numbers(world) == (1, None), "the person's change is taken, in place"
