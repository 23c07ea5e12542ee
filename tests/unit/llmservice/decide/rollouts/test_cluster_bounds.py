"""Worker pods of each Ray cluster during a rollout."""

from dataclasses import replace

from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds, redundant_cluster
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    Manifest,
    World,
    manifest,
    pod,
    ray_service,
    running,
)
from tests.unit.llmservice.decide.scenes.sleeping import asleep, up, view

OLD, NEW = "chat-aaaaa", "chat-bbbbb"
GROUPS = {"workerGroupSpecs": [{"groupName": "tiny"}]}
CLUSTERS = tuple(
    {"metadata": {"name": name, "creationTimestamp": made}, "spec": GROUPS}
    for name, made in ((OLD, "2026-05-04T11:00:00Z"), (NEW, "2026-05-04T11:30:00Z"))
)
NONE, ONE = {"tiny": (0, 0)}, {"tiny": (1, 1)}


def edited(world: World) -> None:
    """Make a change that needs new pods; KubeRay starts a second cluster for it."""
    world.edit(manifest(CPU_MODEL, runtime={"image": "ray:2"}, sleep={"afterIdle": "10m"}))
    both = running(world, pending=NEW)
    world.observed = replace(world.observed, ray_service=both, ray_clusters=CLUSTERS)


def test_both_clusters_have_pods_while_service_is_awake() -> None:
    world = up()
    edited(world)
    world.step()
    assert cluster_bounds(world.observed) == {OLD: ONE, NEW: ONE}


def test_neither_cluster_has_pods_while_service_is_asleep() -> None:
    world = asleep()
    edited(world)
    world.step(pods=(HEAD,))
    assert cluster_bounds(world.observed) == {OLD: NONE, NEW: NONE}


def test_service_changed_while_asleep_wakes_only_in_second_cluster() -> None:
    """With exactly enough accelerators, the first cluster's pod would take those that the second needs."""
    world = asleep()
    edited(world)
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    assert cluster_bounds(world.observed) == {OLD: NONE, NEW: ONE}


def test_first_cluster_releases_pods_if_service_is_changed_while_waking() -> None:
    world = asleep()
    world.step(pods=(HEAD,), ray_clusters=CLUSTERS[:1])
    world.step(gateway=view(held=1))
    assert cluster_bounds(world.observed) == {OLD: ONE}
    edited(world)
    world.step()
    assert cluster_bounds(world.observed) == {OLD: NONE, NEW: ONE}


def test_replaced_cluster_releases_pods_in_sleep_and_gets_none_at_wake() -> None:
    """The old cluster remains until its last requests end; its pods would take the new one's accelerators."""
    world = asleep()
    world.step(pods=(HEAD,), ray_clusters=CLUSTERS, ray_service=running(world, active=NEW))
    assert cluster_bounds(world.observed) == {OLD: NONE, NEW: NONE}
    world.step(gateway=view(held=1))
    assert cluster_bounds(world.observed) == {NEW: ONE}


def test_unchanged_service_wakes_in_existing_cluster() -> None:
    world = asleep()
    world.step(pods=(HEAD,), ray_clusters=CLUSTERS[:1])
    world.step(gateway=view(held=1))
    assert cluster_bounds(world.observed) == {OLD: ONE}


def test_without_a_gateway_every_cluster_has_its_pods() -> None:
    world = World()
    world.step(ray_service=running(world, pending=NEW), ray_clusters=CLUSTERS)
    assert cluster_bounds(world.observed) == {OLD: ONE, NEW: ONE}


def test_maximum_covers_running_pods_if_fewer_replicas_are_desired() -> None:
    """Above `maxReplicas` Ray's autoscaler stops a pod at once, also one in which requests are in progress.

    Serve ends replicas when their requests have ended; then the pod is idle, and goes after `idleTimeout`.
    """
    world = World(manifest(CPU_MODEL, replicas=1))
    one, two, coming = pod("w-1"), pod("w-2"), pod("w-3", placed=False)
    world.step(pods=(HEAD, one, two, coming), ray_clusters=CLUSTERS[:1])
    assert cluster_bounds(world.observed) == {OLD: {"tiny": (1, 2)}}
    world.step(
        pods=(HEAD, one, pod("w-2", cluster=NEW), pod("o-1", model="other")), ray_clusters=CLUSTERS[:1]
    )
    assert cluster_bounds(world.observed) == {OLD: ONE}
    world.step(pods=(HEAD, one, pod("w-2", leaving=True)), ray_clusters=CLUSTERS[:1])
    assert cluster_bounds(world.observed) == {OLD: ONE}


def test_sleeping_service_keeps_no_pods_although_several_run() -> None:
    world = asleep()
    world.step(pods=(HEAD, pod("w-1"), pod("w-2")), ray_clusters=CLUSTERS[:1])
    assert cluster_bounds(world.observed) == {OLD: NONE}


def test_a_cluster_that_was_replaced_before_it_served_gets_no_pods() -> None:
    """The old cluster remains for minutes, and would keep the accelerators that the new one waits for."""
    world = World()
    world.step(ray_service=running(world, active=None, pending=NEW), ray_clusters=CLUSTERS)
    assert cluster_bounds(world.observed) == {OLD: NONE, NEW: ONE}


def made(name: str, at: str, **runtime: str) -> Manifest:
    """Return a Ray cluster with the annotations that its RayService had at its creation."""
    of = ray_service(manifest(CPU_MODEL, runtime=runtime, sleep={"afterIdle": "10m"}))
    metadata = {"name": name, "creationTimestamp": at, "annotations": of["metadata"]["annotations"]}
    return {"metadata": metadata, "spec": GROUPS}


def test_second_cluster_is_redundant_if_change_is_reverted() -> None:
    world = up()
    older, younger = "2026-11-21T12:00:00Z", "2026-11-21T12:05:00Z"
    first, second = made(OLD, older), made(NEW, younger, image="ray:2")
    world.observed = replace(
        world.observed, ray_service=running(world, pending=NEW), ray_clusters=(first, second)
    )
    assert redundant_cluster(world.observed) == NEW
    world.observed = replace(world.observed, ray_service=running(world))
    assert redundant_cluster(world.observed) == ""
    assert cluster_bounds(world.observed)[NEW] == NONE, "it has never served, so nothing of it is waited for"
    edited(world)
    world.observed = replace(world.observed, ray_clusters=(first, second))
    assert redundant_cluster(world.observed) == "", "that one is wanted"


def test_a_cluster_without_a_record_is_left_to_kuberay() -> None:
    world = up()
    world.observed = replace(world.observed, ray_service=running(world, pending=NEW), ray_clusters=CLUSTERS)
    assert redundant_cluster(world.observed) == ""
