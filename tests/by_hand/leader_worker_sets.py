"""A ModelServer on several nodes, with the real controller of LeaderWorkerSet: run by hand (CONTRIBUTING.md).

Real: API server, controller manager, scheduler, LeaderWorkerSet with its webhooks, and Daybreak's operator.
kwok plays nodes and kubelets; the engine's answers and the gateways' words are played as in `tests/api`.
`tests/api/playing/leader_worker_set.py` plays LeaderWorkerSet as it was seen here.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.servers import (
    CHAT,
    CRASHED,
    NAME,
    Player,
    image_of,
    is_gone,
    pods,
    ready,
    stays_a_while,
)

pytestmark = pytest.mark.usefixtures("gated")
SEVERAL: dict[str, Any] = {
    "accelerator": {"kind": "gpu"},
    "parallelism": {"tensor": 2, "pipeline": 2},
    "nodes": 2,
    "image": "engine:1",
    "sleep": {"afterIdle": "1h"},
}
SET = "chat-server"
SETTLES = 1.5
"""Seconds in which a controller does what it is going to do."""


@pytest.fixture(autouse=True)
def ends(admin: Admin) -> Iterator[None]:
    """Check that no object of a test is left."""
    yield
    if admin.get(CHAT.kind, NAME):
        admin.delete(CHAT.kind, NAME)
    eventually("nothing is left", lambda: not left(admin))


def left(admin: Admin) -> list[str]:
    """Return the objects of the server and of its group."""
    kinds = ("LeaderWorkerSet", "StatefulSet", "Pod", "Service", "ControllerRevision", "NetworkPolicy")
    found = [(kind, each["metadata"]["name"]) for kind in kinds for each in admin.list(kind)]
    return [f"{kind}/{name}" for kind, name in found if name.startswith(NAME)]


def ids(admin: Admin) -> dict[str, str]:
    """Return the ids of pods that are not being deleted, by name."""
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in pods(admin)
        if not each["metadata"].get("deletionTimestamp")
    }


def images(admin: Admin) -> dict[str, str]:
    """Return the images of its pods, by name."""
    return {each["metadata"]["name"]: image_of(each) for each in pods(admin)}


def all_new(admin: Admin, before: dict[str, str]) -> bool:
    """Return True if each of the server's pods was replaced."""
    now = ids(admin)
    return now.keys() == before.keys() and not set(now.values()) & set(before.values())


def group(*numbers: int, size: int = 2) -> list[str]:
    """Return the names of the pods of groups."""
    return sorted(f"{SET}-{number}{f'-{at}' if at else ''}" for number in numbers for at in range(size))


def there(admin: Admin, desired: list[str], image: str = "engine:1") -> Callable[[], bool]:
    """Return a check that the server's pods are these, ready, and of an image."""

    def look() -> bool:
        return all(map(ready, pods(admin))) and images(admin) == dict.fromkeys(desired, image)

    return look


def awake(player: Player, **spec: Any) -> dict[str, Any]:
    """Make it, and bring it up. Returns its model's gate."""
    player.answers()
    player.admin.create(CHAT.manifest(**SEVERAL | spec))
    return player.reaches("Awake", "Open")


def edit(admin: Admin, **spec: object) -> None:
    """Change the spec."""
    admin.merge("ModelServer", NAME, {"spec": spec})


def generation(admin: Admin) -> int:
    """Return the generation of the server's LeaderWorkerSet."""
    return int(admin.get("LeaderWorkerSet", SET)["metadata"]["generation"])


def test_group_has_labels_environment_and_service_for_its_leader(player: Player) -> None:
    admin = player.admin
    awake(player)
    eventually("its group", there(admin, group(0)))
    assert CHAT.status(admin)["replicas"] == 1
    assert CHAT.status(admin)["accelerators"] == 4
    by_name = {each["metadata"]["name"]: each for each in pods(admin)}
    for index, (name, pod) in enumerate(sorted(by_name.items())):
        [container] = pod["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert env["LWS_LEADER_ADDRESS"] == f"{SET}-0.{SET}.{admin.namespace}", name
        assert (env["LWS_GROUP_SIZE"], env["LWS_WORKER_INDEX"]) == ("2", str(index))
        assert {"$(LWS_GROUP_SIZE)", "$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)"} <= {*container["args"]}
        assert (names.MODEL_LABEL in pod["metadata"]["labels"]) == (index == 0), "requests are for leaders"
        assert pod["spec"]["subdomain"] == SET
    assert admin.get("Service", SET)["spec"]["publishNotReadyAddresses"] is True
    assert admin.get("Service", SET)["spec"]["clusterIP"] == "None"
    made = admin.get("LeaderWorkerSet", SET)
    assert made["status"]["observedGeneration"] == made["metadata"]["generation"] == 1
    time.sleep(SETTLES)
    assert generation(admin) == 1, "it is as it was asked for"


def test_model_server_sleeps_without_groups_and_wakes(player: Player) -> None:
    admin = player.admin
    awake(player, sleep={"afterIdle": "1s"}, replicas=2)
    eventually("its groups", there(admin, group(0, 1)))
    player.idle()
    player.reaches("Asleep", "Closed")
    eventually("no pod", lambda: not pods(admin))
    assert not [each for each in admin.list("StatefulSet") if each["metadata"]["name"] != SET]
    player.traffic(held=1)
    player.reaches("Awake", "Open")
    eventually("its groups", there(admin, group(0, 1)))
    eventually("both are counted", lambda: CHAT.status(admin)["replicas"] == 2)
    assert generation(admin) == 3, "made, sent to sleep, woken"


@pytest.mark.parametrize("change", [{"image": "engine:2"}, {"nodes": 4, "image": "engine:2"}])
def test_change_replaces_all_groups_after_requests_have_finished(
    player: Player, change: dict[str, Any]
) -> None:
    admin = player.admin
    awake(player, replicas=2)
    eventually("its groups", there(admin, group(0, 1)))
    player.traffic(in_flight=1)
    edit(admin, **change)
    player.reaches("Replacing", "Closed")
    time.sleep(SETTLES)
    assert set(images(admin).values()) == {"engine:1"}, "a request is on its way"
    assert len(pods(admin)) == 4
    player.traffic(held=1)
    observed: set[tuple[str, ...]] = set()

    def done() -> bool:
        observed.add(tuple(sorted(set(images(admin).values()))))
        return bool(CHAT.status(admin)["rollout"]["phase"] == "Complete")

    eventually("rolled out", done, pause=0.02)
    assert ("engine:1", "engine:2") not in observed, "none comes before all have gone"
    assert player.reaches("Awake", "Open")
    eventually("its groups", there(admin, group(0, 1, size=change.get("nodes", 2)), "engine:2"))
    assert CHAT.status(admin)["rollout"]["strategy"] == "Replace"


def test_failed_change_is_rolled_back(player: Player) -> None:
    admin = player.admin
    awake(player)
    player.answers("no such model")
    edit(admin, image="engine:2", rollout={"deadline": "5s"})
    eventually("goes back", lambda: CHAT.condition(admin, "Stalled").get("reason") == "RolledBack")
    player.answers()
    player.reaches("Awake", "Open")
    eventually("its group of before", there(admin, group(0)))


def test_server_changed_during_sleep_wakes_with_new_image(player: Player) -> None:
    admin = player.admin
    awake(player, sleep={"afterIdle": "1s"})
    player.idle()
    player.reaches("Asleep", "Closed")
    eventually("no pod", lambda: not pods(admin))
    edit(admin, image="engine:2")
    template = ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec", "containers")

    def changed() -> bool:
        found = admin.get("LeaderWorkerSet", SET)
        for field in template:
            found = found[field]
        return bool(found[0]["image"] == "engine:2")

    eventually("it is changed", changed)
    player.traffic(held=1)
    player.reaches("Awake", "Open")
    eventually("its group", there(admin, group(0), "engine:2"))


def test_replica_change_adds_and_removes_groups(player: Player) -> None:
    admin = player.admin
    awake(player)
    before = ids(admin)
    edit(admin, replicas=3)
    eventually("three groups", there(admin, group(0, 1, 2)))
    eventually("they are counted", lambda: CHAT.status(admin)["replicas"] == 3)
    edit(admin, replicas=1)
    eventually("one group", there(admin, group(0)))
    eventually("it is counted", lambda: CHAT.status(admin)["replicas"] == 1)
    assert ids(admin) == before, "the first one went on"


@pytest.mark.parametrize("which", group(0))
def test_container_restart_replaces_whole_group(player: Player, which: str) -> None:
    admin = player.admin
    awake(player)
    before = ids(admin)
    player.silent()
    stays_a_while(admin, which)
    admin.merge("Pod", which, {"status": CRASHED}, subresource="status")
    eventually("it is told", lambda: CHAT.status(admin)["replicas"] == 0)
    eventually("why", lambda: "no such device" in CHAT.condition(admin, "Ready")["message"])
    is_gone(admin, which)

    eventually("a new group", lambda: all_new(admin, before))
    player.answers()
    player.reaches("Awake", "Open")
    eventually("counted", lambda: CHAT.status(admin)["replicas"] == 1)
    assert "crash" not in CHAT.status(admin)


@pytest.mark.parametrize("which", group(0))
def test_pod_deletion_replaces_whole_group(player: Player, which: str) -> None:
    admin = player.admin
    awake(player)
    before = ids(admin)
    admin.delete("Pod", which)
    eventually("a new group", lambda: all_new(admin, before))
    eventually("its pods", there(admin, group(0)))
    player.reaches("Awake", "Open")


def test_failed_worker_replaces_whole_group(player: Player) -> None:
    admin = player.admin
    awake(player)
    before = ids(admin)
    worker = group(0)[1]
    failed = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    admin.merge("Pod", worker, {"status": failed}, subresource="status")
    eventually("a new group", lambda: all_new(admin, before))
    eventually("its pods", there(admin, group(0)))


def test_model_server_deletion_removes_all_objects(player: Player) -> None:
    admin = player.admin
    awake(player, replicas=2)
    eventually("its groups", there(admin, group(0, 1)))
    made = {each.partition("/")[0] for each in left(admin)}
    assert {"StatefulSet", "Pod", "Service", "ControllerRevision"} <= made
    admin.delete("ModelServer", NAME)
    eventually("nothing is left", lambda: not left(admin))


def test_model_server_changes_from_one_node_to_two_and_back(player: Player) -> None:
    admin = player.admin
    awake(player, nodes=1)
    assert admin.get("Deployment", SET)
    edit(admin, nodes=2)
    eventually("its group", there(admin, group(0)))
    player.reaches("Awake", "Open")
    assert admin.get("Deployment", SET) is None
    edit(admin, nodes=1)
    eventually("a Deployment", lambda: admin.get("Deployment", SET))
    eventually("no group", lambda: admin.get("LeaderWorkerSet", SET) is None)
    player.reaches("Awake", "Open")
    eventually("one pod", lambda: len(pods(admin)) == 1)
