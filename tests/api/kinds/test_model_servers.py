"""ModelServer on the real API server with the real Deployment controller; kubelet and engine are played."""

import time
from collections.abc import Callable, Iterator

import pytest

from daybreak.api.common import names
from tests import leader_worker_sets
from tests.api.admin import Admin, Refused, eventually
from tests.api.objects.llmservice import tiny
from tests.api.objects.servers import CHAT, CRASHED, NAME, Player, image_of, is_gone, pods, stays_a_while
from tests.api.playing.leader_worker_set import PlayedGroups

pytestmark = pytest.mark.usefixtures("gated")
SOON = {"afterIdle": "1s"}
NO_IMAGE = {
    "phase": "Pending",
    "containerStatuses": [
        {
            "name": "engine",
            "image": "engine:2",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        }
    ],
}


def replicas(admin: Admin) -> int:
    """Return the number of pods in the Deployment's spec."""
    return int(admin.get("Deployment", CHAT.objects["Deployment"])["spec"]["replicas"])


def test_held_request_wakes_sleeping_model_server(player: Player) -> None:
    admin = player.admin
    player.awake(sleep=SOON)
    assert CHAT.condition(admin, "Ready")["status"] == "True"
    front = admin.get("Service", NAME)
    assert front["spec"]["selector"] == names.gateway_selector()
    gate = CHAT.status(admin)["gate"]
    assert front["spec"]["ports"][0]["targetPort"] == gate["port"]
    [backend] = gate["backends"]
    assert (backend["cluster"], backend["port"]) == ("server.chat", 8000)
    eventually("the namespace's gateway", lambda: admin.get("Deployment", names.GATEWAY))

    player.idle()
    player.silent()
    closed = player.reaches("Asleep", "Closed")
    eventually("no pod is to be", lambda: replicas(admin) == 0)
    eventually("no pod", lambda: not pods(admin))
    eventually("no pod is seen", lambda: CHAT.condition(admin, "Active")["reason"] == "Asleep")
    assert CHAT.condition(admin, "Ready")["status"] == "True", "asleep is healthy"

    player.traffic(held=2)
    waking = player.reaches("Waking", "Closed")
    assert waking["epoch"] == closed["epoch"], "it was closed all the time"
    player.starts()
    assert CHAT.condition(admin, "Ready")["status"] == "True", "requests are held"
    player.answers()
    opened = player.reaches("Awake", "Open")
    assert opened["epoch"] > closed["epoch"]
    assert opened["wake"]["recent"] == [opened["wake"]["seconds"]]


def test_v2_protocol_sets_health_path_and_url_of_model_server(player: Player) -> None:
    own = {"engine": "custom", "image": "engine:1", "protocol": "V2"}
    player.awake(**own)
    status = CHAT.status(player.admin)
    assert status["gate"]["protocol"] == "V2"
    assert status["gate"]["backends"][0]["healthPath"] == "/v2/models/tiny/ready"
    assert status["url"] == f"http://chat.{player.admin.namespace}.svc"


def test_engine_of_installation_sets_image_args_and_port(player: Player) -> None:
    player.awake(engine="embedder")
    pods = player.admin.get("Deployment", CHAT.objects["Deployment"])["spec"]["template"]["spec"]
    [container] = pods["containers"]
    assert (container["image"], container["args"]) == ("embedder:1", ["--model=/models/tiny"])
    status = CHAT.status(player.admin)
    assert (status["gate"]["protocol"], status["gate"]["backends"][0]["port"]) == ("Any", 8090)


def test_model_server_deletion_removes_its_objects_and_gateway(player: Player) -> None:
    player.awake()
    admin = player.admin
    eventually("the gateway", lambda: admin.get("Deployment", names.GATEWAY))
    admin.delete("ModelServer", NAME)
    eventually("nothing", lambda: CHAT.gone(admin))
    eventually("no gateway", lambda: admin.get("Deployment", names.GATEWAY) is None)


SET = CHAT.objects["Deployment"]
"""Name of its LeaderWorkerSet too."""
SEVERAL = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2, "pipeline": 2}, "nodes": 2}


@pytest.fixture
def leader_worker_set(admin: Admin) -> Iterator[Callable[[], None]]:
    """Install LeaderWorkerSet's kind, for the rest of the test."""
    yield lambda: admin.create(leader_worker_sets.crd())
    if admin.get("CustomResourceDefinition", leader_worker_sets.NAME):
        admin.delete("ModelServer", NAME)
        eventually("nothing", lambda: CHAT.gone(admin))
        admin.delete("CustomResourceDefinition", leader_worker_sets.NAME)


@pytest.fixture
def group(admin: Admin) -> PlayedGroups:
    """Yield the simulated controller of LeaderWorkerSet, which acts when the test calls it."""
    return PlayedGroups(admin, SET)


def ids(admin: Admin) -> dict[str, str]:
    """Return the ids of pods that are not being deleted, by name."""
    stay = [each["metadata"] for each in pods(admin) if not each["metadata"].get("deletionTimestamp")]
    return {each["name"]: each["uid"] for each in stay}


def starts(group: PlayedGroups, admin: Admin) -> dict[str, str]:
    """Let the pods of the one group be created, run and be ready. Returns their ids by name."""

    def there() -> dict[str, str] | None:
        group.look()
        found = ids(admin)
        return found if sorted(found) == [f"{SET}-0", f"{SET}-0-1"] else None

    found = eventually("its pods", there)
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
    for number, name in enumerate(sorted(found), 1):
        address = {"podIP": f"127.0.0.{number}", "podIPs": [{"ip": f"127.0.0.{number}"}]}
        running = {"phase": "Running", "conditions": ready, **address}
        admin.merge("Pod", name, {"status": running}, subresource="status")
    return found


def written_to_group(admin: Admin) -> int:
    """Return the generation of the server's LeaderWorkerSet."""
    return int(admin.get("LeaderWorkerSet", SET)["metadata"]["generation"])


def test_multi_node_replica_is_replaced_as_group_after_worker_crash(
    player: Player, leader_worker_set: Callable[[], None], group: PlayedGroups
) -> None:
    admin = player.admin
    admin.create(CHAT.manifest(**SEVERAL, sleep=SOON))
    missing = "LeaderWorkerSetNotInstalled"
    eventually("said", lambda: CHAT.condition(admin, "Stalled").get("reason") == missing)
    leader_worker_set()
    eventually("goes on", lambda: CHAT.condition(admin, "Stalled").get("status") == "False")
    eventually("its LeaderWorkerSet", lambda: admin.get("LeaderWorkerSet", SET))
    before = starts(group, admin)
    player.answers()
    player.reaches("Awake", "Open")
    assert CHAT.status(admin)["replicas"] == 1, "of two pods"

    player.traffic(in_flight=1)
    player.silent()
    stays_a_while(admin, f"{SET}-0-1")
    admin.merge("Pod", f"{SET}-0-1", {"status": CRASHED}, subresource="status")
    eventually("the leader goes with its worker", lambda: group.look() and f"{SET}-0" not in ids(admin))
    eventually("it is told", lambda: CHAT.status(admin)["replicas"] == 0)
    eventually("why", lambda: "no such device" in CHAT.condition(admin, "Ready")["message"])
    is_gone(admin, f"{SET}-0-1")
    after = starts(group, admin)
    assert not set(before.values()) & set(after.values()), "all of the group are new"
    player.answers()
    eventually("it is told", lambda: CHAT.status(admin)["replicas"] == 1)
    player.reaches("Awake", "Open")
    assert "crash" not in CHAT.status(admin)
    assert written_to_group(admin) == 1, "made once, and not written to since"

    player.idle()
    player.reaches("Asleep", "Closed")
    eventually("no replica is to be", lambda: written_to_group(admin) == 2)
    assert admin.get("LeaderWorkerSet", SET)["spec"]["replicas"] == 0
    eventually("no pod", lambda: group.look() and not pods(admin))
    assert admin.get("Deployment", SET) is None
    owners = [
        each["metadata"]["ownerReferences"][0]["kind"]
        for each in admin.list("ControllerRevision", labelSelector=names.owner_selector(f"server.{NAME}"))
    ]
    assert "StatefulSet" in owners, "revisions of others have its labels, and are left to them"


def edit(admin: Admin, **spec: object) -> None:
    """Change the spec."""
    admin.merge("ModelServer", NAME, {"spec": spec})


def images(admin: Admin) -> list[str]:
    """Return the images of the service's pods."""
    return sorted(image_of(pod) for pod in pods(admin))


def test_old_pod_stays_until_new_pod_answers_and_failed_start_rolls_back(player: Player) -> None:
    admin = player.admin
    player.awake(image="engine:1")
    first = player.rolls("Complete")
    edit(admin, image="engine:2")
    player.starts("engine:2", **NO_IMAGE)
    message = player.rolls("RolledBack")
    assert (message["currentRevisionNumber"], message["currentRevision"], message["strategy"]) == (
        1,
        first["currentRevision"],
        "BlueGreen",
    )
    stalled = CHAT.condition(admin, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RolledBack")
    assert "image engine:2 cannot be pulled: not found" in stalled["message"]
    assert CHAT.condition(admin, "Ready")["status"] == "True"
    eventually("the old pod alone", lambda: images(admin) == ["engine:1"])
    assert player.reaches("Awake", "Open")

    player.silent()
    edit(admin, image="engine:3")
    player.starts("engine:3")
    assert player.rolls("Progressing")["currentRevisionNumber"] == 3
    time.sleep(2)
    assert images(admin) == ["engine:1", "engine:3"], "it is ready, and has not answered"
    player.answers()
    assert player.rolls("Complete")["currentRevisionNumber"] == 3
    eventually("the new pod alone", lambda: images(admin) == ["engine:3"])
    assert CHAT.condition(admin, "Stalled")["status"] == "False"
    kept = admin.list("ControllerRevision", labelSelector=names.owner_selector(f"server.{NAME}"))
    assert sorted(each["revision"] for each in kept) == [1, 2, 3]


def test_replace_rollout_finishes_requests_before_pods_are_replaced(player: Player) -> None:
    admin = player.admin
    player.awake(image="engine:1", rollout={"strategy": "Replace"})
    player.traffic(in_flight=1)
    edit(admin, image="engine:2")
    player.reaches("Replacing", "Closed")
    assert images(admin) == ["engine:1"], "a request is on its way"
    player.traffic(held=2)
    player.starts("engine:2")
    assert images(admin) == ["engine:2"]
    assert CHAT.condition(admin, "Ready")["status"] == "True", "requests are held"
    player.reaches("Awake", "Open")
    assert player.rolls("Complete")["strategy"] == "Replace"


def test_scale_subresource_changes_number_of_pods(player: Player) -> None:
    player.awake()
    player.admin.merge("ModelServer", NAME, {"spec": {"replicas": 2}}, subresource="scale")
    eventually("two pods", lambda: len(pods(player.admin)) == 2)
    assert CHAT.status(player.admin)["selector"] == names.owner_selector(f"server.{NAME}")


def test_replicas_follow_requests_in_progress_within_bounds(player: Player) -> None:
    admin = player.admin
    rules = {"maxReplicas": 3, "targetOngoingRequests": 10, "upscaleDelay": "0s", "downscaleDelay": "0s"}
    player.traffic(in_flight=1)
    player.awake(autoscaling=rules)
    assert replicas(admin) == 1
    player.traffic(in_flight=25)
    eventually("as many as are wanted", lambda: replicas(admin) == 3)
    assert CHAT.status(admin)["autoscaling"] == {"currentReplicas": 3}
    assert CHAT.condition(admin, "Ready")["status"] == "True"
    admin.merge("ModelServer", NAME, {"spec": {"autoscaling": {"maxReplicas": 2}}})
    eventually("no more than the most", lambda: replicas(admin) == 2)
    player.traffic()
    eventually("the fewest", lambda: replicas(admin) == 1)


def test_name_conflict_is_reported_and_existing_service_keeps_address(player: Player) -> None:
    admin = player.admin
    service = tiny(NAME)
    admin.create(service)
    eventually("the service's address", lambda: admin.get("Service", NAME))
    owner = admin.get("Service", NAME)["metadata"]["ownerReferences"][0]["kind"]
    admin.create(CHAT.manifest())
    eventually("NameConflict", lambda: CHAT.condition(admin, "Stalled").get("reason") == "NameConflict")
    assert "Service/chat" in CHAT.condition(admin, "Stalled")["message"]
    assert owner == admin.get("Service", NAME)["metadata"]["ownerReferences"][0]["kind"] == "LLMService"
    admin.delete("LLMService", NAME)
    eventually("it is made", lambda: CHAT.everything(admin))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"engine": "No!"}, "spec.engine"),
        ({"args": ["a"]}, "args belongs to engine custom"),
        ({"sleep": {"depth": "Cluster"}}, "a ModelServer has no Ray cluster"),
        ({"parallelism": {"tensor": 2}}, "accelerator kind cpu has no parallelism"),
        ({"accelerator": {"type": "H100"}}, "accelerator.type is Ray's name"),
        ({"nodes": 2}, "must be a multiple of nodes"),
        (
            {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 64, "pipeline": 4}, "nodes": 2},
            "at most 64 accelerators",
        ),
        ({"replicas": 0}, "spec.replicas"),
        ({"protocol": "Grpc"}, "spec.protocol"),
    ],
)
def test_api_server_rejects_invalid_spec(spec: dict[str, object], words: str, admin: Admin) -> None:
    with pytest.raises(Refused) as refused:
        admin.create(CHAT.manifest(**spec))
    assert words in str(refused.value)


def test_unknown_engine_or_argument_stalls_model_server(player: Player) -> None:
    def reported(words: str) -> bool:
        stalled = CHAT.condition(player.admin, "Stalled")
        return stalled.get("reason") == "InvalidSpec" and words in stalled["message"]

    player.admin.create(CHAT.manifest(engine="vlm", engineArgs={"max_model_length": 1}))
    eventually(
        "an unknown engine", lambda: reported("spec.engine: vlm is not known here; did you mean vllm?")
    )
    player.admin.merge("ModelServer", NAME, {"spec": {"engine": "vllm"}})
    eventually("Stalled", lambda: reported("max_model_length"))
    assert "max_model_len" in CHAT.condition(player.admin, "Stalled")["message"]
    player.admin.merge("ModelServer", NAME, {"spec": {"engineArgs": {"max_model_length": None}}})
    eventually("it is made", lambda: CHAT.everything(player.admin))


def written(admin: Admin) -> dict[str, str]:
    """Return versions of the server's objects, without the Deployment: its controller writes the status."""
    found = CHAT.everything(admin)
    assert found
    return {kind: each["metadata"]["resourceVersion"] for kind, each in found.items() if kind != "Deployment"}


def test_operator_does_not_write_to_unchanged_model_server(player: Player) -> None:
    player.awake()
    admin = player.admin
    versions = {
        kind: each["metadata"]["resourceVersion"] for kind, each in (CHAT.everything(admin) or {}).items()
    }
    own = admin.get("ModelServer", NAME)["metadata"]["resourceVersion"]
    admin.merge("ModelServer", NAME, {"metadata": {"annotations": {"a": "b"}}})
    eventually("a reconcile", lambda: admin.get("ModelServer", NAME)["metadata"]["resourceVersion"] != own)
    other = admin.merge("ModelServer", NAME, {"metadata": {"annotations": {"a": "c"}}})
    player.traffic(in_flight=1)
    player.traffic(in_flight=2)
    after = {
        kind: each["metadata"]["resourceVersion"] for kind, each in (CHAT.everything(admin) or {}).items()
    }
    versions.pop("Deployment"), after.pop("Deployment")  # its status is the controller's
    assert after == versions
    assert (
        admin.get("ModelServer", NAME)["metadata"]["resourceVersion"] == other["metadata"]["resourceVersion"]
    )
