"""Resources that workloads' pods use on nodes, as pods are created, changed and deleted."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.manifests.resources import PODS
from tests.unit.kube.counted import Counted
from tests.unit.llmservice.decide.scenes.services import Manifest, pod


class World:
    """Pods, and the watch that adds up their resources."""

    def __init__(self) -> None:
        self.cache = Counted()
        self.watch = BookedWatch(self.cache)
        self._version = 0

    def put(self, name: str, node: str, gpus: int, *, owner: str = "chat", **more: Any) -> Manifest:
        """Put the current state of a pod."""
        self._version += 1
        found = pod(name, gpus=gpus, placed=bool(node), **more)
        found["metadata"] |= {"resourceVersion": str(self._version), "uid": name}
        found["metadata"]["labels"] = found["metadata"]["labels"] | {**names.owner_labels(owner)}
        found["spec"]["nodeName"] = node or None
        self.cache.put(PODS, found)
        return found

    def drop(self, manifest: Manifest) -> None:
        """Delete the pod."""
        self._version += 1
        gone = manifest["metadata"] | {"resourceVersion": str(self._version)}
        self.cache.drop(PODS, manifest | {"metadata": gone})

    def gpus(self) -> dict[str, int]:
        """Return the number of used GPUs of each node."""
        return {node: int(taken["nvidia.com/gpu"]) for node, taken in self.watch.booked().items()}


@pytest.fixture
def world() -> World:
    return World()


def test_booked_resources_follow_changes_of_pods(world: World) -> None:
    one = world.put("one", "a", 2)
    world.put("two", "a", 1)
    world.put("three", "b", 4, owner="other")
    assert world.gpus() == {"a": 3, "b": 4}
    world.put("three", "", 4, owner="other")
    assert world.gpus() == {"a": 3}, "it stands on no node"
    world.put("three", "a", 4, owner="other")
    world.drop(one)
    assert world.gpus() == {"a": 5}
    world.put("three", "a", 4, owner="other", status={"phase": "Succeeded"})
    assert world.gpus() == {"a": 1}, "it has ended"


def test_pods_created_before_the_watch_are_counted(world: World) -> None:
    world.put("one", "a", 2)
    world.watch = BookedWatch(world.cache)
    assert world.gpus() == {"a": 2}


def test_returned_resources_are_unchanged_after_later_changes(world: World) -> None:
    world.put("one", "a", 2)
    reported = world.watch.booked()
    world.put("one", "a", 3)
    assert world.gpus() == {"a": 3}
    assert reported["a"]["nvidia.com/gpu"] == 2


def test_only_changed_pods_are_read_again(world: World) -> None:
    for number in range(50):
        world.put(f"p{number}", "a", 1, owner=f"s{number}")
    assert world.gpus() == {"a": 50}
    world.cache.read = 0
    assert world.gpus() == {"a": 50}
    assert world.cache.read == 0
    world.put("p7", "b", 1, owner="s7")
    assert world.gpus() == {"a": 49, "b": 1}
    assert world.cache.read == 1
