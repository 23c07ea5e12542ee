"""Replicas on several nodes that restarted: the failures that the status reports, and until when."""

from typing import Any

import pytest

from tests.unit.modelserver.rolling import ANSWERS, Rolling, replaced

SPREAD: dict[str, Any] = {
    "accelerator": {"kind": "gpu"},
    "parallelism": {"tensor": 4, "pipeline": 2},
    "nodes": 2,
    "image": "engine:1",
}
GROUP = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
ENDED = {"exitCode": 1, "reason": "Error", "message": "no such device"}


def leader(world: Rolling, uid: str, *, ready: bool = False, leaving: bool = False) -> dict[str, Any]:
    """Return the leader of a group."""
    pod = world.pod(ready=ready)
    pod["metadata"] |= {"name": "chat-server-0", "uid": uid, "labels": pod["metadata"]["labels"] | GROUP}
    return _leaving(pod) if leaving else pod


def worker(world: Rolling, *, ended: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a worker that is deleted with its leader, because it or another pod of the group has ended."""
    pod = world.pod(ready=True)
    labels = pod["metadata"]["labels"] | GROUP | {"app.kubernetes.io/component": "server-worker"}
    pod["metadata"] |= {"name": "chat-server-0-1", "labels": labels}
    last = {} if ended is None else {"terminated": ended}
    pod["status"]["containerStatuses"] = [{"name": "engine", "restartCount": 1, "lastState": last}]
    return _leaving(pod)


def _leaving(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    return pod


def crashes(world: Rolling, uid: str, **ended: Any) -> None:
    """Delete the group after the end of a worker, and start another group."""
    world.pods = [leader(world, uid, leaving=True), worker(world, ended=ENDED | ended)]
    world.step()
    world.pods = [leader(world, f"after-{uid}")]
    world.step()


def first() -> Rolling:
    """Return a server that has never answered."""
    world = Rolling(**SPREAD)
    world.step()
    return world


def test_crash_of_worker_is_reported_while_next_group_starts() -> None:
    world = first()
    crashes(world, "one")
    assert world.says("Ready") == ("False", "ContainerCrashing", world.says("Ready")[2])
    assert "container engine ended with exit code 1: no such device" in world.says("Ready")[2]
    assert world.says("Stalled")[0] == "False", "once may be chance"


def test_second_crash_stalls_server_until_server_answers() -> None:
    world = first()
    crashes(world, "one")
    crashes(world, "two")
    assert world.says("Stalled")[:2] == ("True", "ContainerCrashing")
    assert "no such device" in world.says("Stalled")[2]
    world.pods = [leader(world, "three", ready=True)]
    world.step(ANSWERS)
    assert world.says("Stalled")[0] == "False"
    assert world.status is not None
    assert "crash" not in world.status, "it answers"


def test_crash_of_one_group_is_counted_once() -> None:
    world = first()
    for _ in range(3):
        world.pods = [leader(world, "one", leaving=True), worker(world, ended=ENDED)]
        world.step()
    assert world.says("Stalled")[0] == "False"


@pytest.mark.parametrize("ended", [None, {"exitCode": 143}, {"exitCode": 137, "reason": "Error"}])
def test_worker_stopped_from_outside_is_not_reported_as_crash(ended: dict[str, Any] | None) -> None:
    world = first()
    world.pods = [leader(world, "one", leaving=True), worker(world, ended=ended)]
    world.step()
    assert world.says("Ready")[1] != "ContainerCrashing"


def test_worker_killed_for_memory_is_reported_with_hint_to_raise_limit() -> None:
    world = first()
    crashes(world, "one", exitCode=137, reason="OOMKilled")
    assert "raise the limit" in world.says("Ready")[2]


def test_revision_that_crashes_twice_is_rolled_back() -> None:
    world = Rolling(**SPREAD).up()
    world.edit(image="engine:2")
    world.step()
    replaced(world)
    world.step()
    world.step(seconds=20)
    crashes(world, "one")
    assert world.rollout["phase"] == "Progressing"
    crashes(world, "two")
    assert world.rollout["phase"] == "RollingBack"
    assert "no such device" in world.rollout["message"]
    world.pods = []
    world.step()
    world.step()
    world.pods = [leader(world, "before")]
    world.step(seconds=60)
    assert world.rollout["phase"] == "RollingBack", "only the other revision has this failure"
    world.pods = [leader(world, "before", ready=True)]
    world.step(ANSWERS)
    assert world.rollout["phase"] == "RolledBack"
