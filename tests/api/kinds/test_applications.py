"""ServeApplication on the real API server, with KubeRay's real CRDs; KubeRay and Ray Serve are played."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, Refused, eventually
from tests.api.objects.applications import CODE, NAME, OWNER, PIPELINE, Player, write_code
from tests.api.objects.llmservice import tiny
from tests.api.operator_process import OperatorProcess

SOON = {"afterIdle": "1s", "depth": "Cluster"}
GROUP = {"name": "g", "cpu": "1", "memory": "2Gi"}
LLM: dict[str, Any] = {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}}
NO_MODULE = """\
Deploying app 'app' failed with exception:
Traceback (most recent call last):
  File "/home/ray/lib/python/ray/serve/_private/application_state.py", line 1, in build
ModuleNotFoundError: No module named 'pipelines'
"""


@pytest.fixture
def player(admin: Admin, traffic: Path, gated: OperatorProcess) -> Iterator[Player]:
    """Yield the simulated parts around an application that does not exist yet."""
    yield Player(admin, traffic)
    for kind, name in (("ServeApplication", NAME), ("ConfigMap", CODE)):
        if admin.get(kind, name):
            admin.delete(kind, name)


def test_held_request_wakes_application_that_sleeps_without_cluster(player: Player) -> None:
    admin = player.admin
    player.awake(sleep=SOON)
    assert PIPELINE.condition(admin, "Ready")["status"] == "True"
    status = PIPELINE.status(admin)
    assert status["url"] == f"http://{NAME}.{admin.namespace}.svc"
    assert [each["name"] for each in status["deployments"]] == ["Length", "Pipeline"]
    front = admin.get("Service", NAME)
    assert front["spec"]["selector"] == names.gateway_selector()
    assert front["spec"]["ports"][0]["targetPort"] == status["gate"]["port"]
    assert [each["cluster"] for each in status["gate"]["backends"]] == [player.cluster]
    eventually("the namespace's gateway", lambda: admin.get("Deployment", names.GATEWAY))

    player.idle()
    closed = player.reaches("Asleep", "Closed")
    assert closed["sleepDepth"] == "Cluster"
    eventually("no RayService", lambda: admin.get("RayService", NAME) is None)
    player.goes()
    eventually("no pod is seen", lambda: PIPELINE.condition(admin, "Active")["reason"] == "Asleep")
    assert PIPELINE.condition(admin, "Ready")["status"] == "True", "asleep is healthy"
    assert admin.get("Service", NAME), "its address stays"

    player.traffic(held=1)
    player.reaches("Waking", "Closed")
    player.starts("fghij")
    opened = player.reaches("Awake", "Open")
    assert opened["epoch"] > closed["epoch"]
    assert [each["cluster"] for each in PIPELINE.status(admin)["gate"]["backends"]] == [player.cluster]


def test_application_sleep_removes_workers_and_keeps_head(player: Player) -> None:
    admin = player.admin
    player.awake(sleep={"afterIdle": "1s"})
    before = admin.get("RayService", NAME)["spec"]["rayClusterConfig"]["headGroupSpec"]
    player.idle()
    assert player.reaches("Asleep", "Closed")["sleepDepth"] == "Workers"
    eventually("no room for workers", lambda: player.bounds == (0, 0))
    found = admin.get("RayService", NAME)["spec"]
    assert found["serveConfigV2"].count("max_replicas: 1") == 2
    assert found["rayClusterConfig"]["headGroupSpec"] == before
    assert admin.get("PodDisruptionBudget", f"{OWNER}-ray")["spec"]["minAvailable"] == 0
    player.goes("worker")
    eventually("no worker is seen", lambda: PIPELINE.condition(admin, "Active")["reason"] == "Asleep")
    player.says("RUNNING")

    player.traffic(held=1)
    player.reaches("Waking", "Closed")
    eventually("room for workers", lambda: player.bounds == (1, 2))
    player.kuberay.worker(NAME, player.cluster, "cpu")
    player.says("RUNNING")
    player.reaches("Awake", "Open")


def test_llms_sleep_and_wake_with_application(player: Player) -> None:
    admin = player.admin
    player.awake(sleep={"afterIdle": "1s"}, llms=[LLM])

    def bounds() -> dict[str, tuple[int, int]]:
        groups = admin.get("RayCluster", player.cluster)["spec"]["workerGroupSpecs"]
        return {each["groupName"]: (each["minReplicas"], each["maxReplicas"]) for each in groups}

    assert bounds() == {"cpu": (1, 2), "tiny": (1, 1)}
    player.idle()
    player.reaches("Asleep", "Closed")
    eventually("no room for workers", lambda: bounds() == {"cpu": (0, 0), "tiny": (0, 0)})
    player.goes("worker")
    player.says("RUNNING")
    player.traffic(held=1)
    player.reaches("Waking", "Closed")
    player.kuberay.worker(NAME, player.cluster, "cpu")
    player.says("RUNNING")
    time.sleep(1)
    player.reaches("Waking", "Closed")
    player.kuberay.worker(NAME, player.cluster, "tiny")
    player.says("RUNNING")
    player.reaches("Awake", "Open")


def test_application_deletion_removes_its_objects(player: Player) -> None:
    player.awake()
    player.admin.delete("ServeApplication", NAME)
    eventually("nothing", lambda: PIPELINE.gone(player.admin))


def test_changed_and_deleted_objects_are_restored(player: Player) -> None:
    admin = player.admin
    player.awake()
    spec = {"serveConfigV2": "applications: []"}
    admin.merge("RayService", NAME, {"spec": spec})
    eventually("Serve's", lambda: "pipeline:build" in admin.get("RayService", NAME)["spec"]["serveConfigV2"])
    admin.delete("NetworkPolicy", f"{OWNER}-ray")
    eventually("it is made again", lambda: PIPELINE.everything(admin))


def test_replica_change_updates_serve_config_and_keeps_head(player: Player) -> None:
    admin = player.admin
    player.awake()
    before = admin.get("RayService", NAME)["spec"]["rayClusterConfig"]["headGroupSpec"]
    more = [{"name": "Pipeline", "cpu": "100m", "numReplicas": 3}, {"name": "Length", "cpu": "100m"}]
    admin.merge("ServeApplication", NAME, {"spec": {"deployments": more}})
    eventually("Serve", lambda: "max_replicas: 3" in admin.get("RayService", NAME)["spec"]["serveConfigV2"])
    assert admin.get("RayService", NAME)["spec"]["rayClusterConfig"]["headGroupSpec"] == before
    eventually("the cluster that runs is told", lambda: player.bounds == (3, 4))


def test_import_error_is_reported_in_condition_and_failed_gate(player: Player) -> None:
    admin = player.admin
    admin.create(PIPELINE.manifest())
    player.comes_up()
    player.says("DEPLOY_FAILED", NO_MODULE)
    message = PIPELINE.stalled(admin, "ModelFailed")
    assert "ModuleNotFoundError: No module named 'pipelines'" in message
    assert "No module named 'pipelines'" in player.reaches("Failed", "Failed")["reason"]
    player.says("RUNNING")
    player.reaches("Awake", "Open")


def of_code(admin: Admin) -> set[str]:
    """Return the digests of code in the RayService and in its pod templates."""
    found = admin.get("RayService", NAME)
    cluster = found["spec"]["rayClusterConfig"]
    groups = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    made = [found["metadata"], *(group["template"]["metadata"] for group in groups)]
    return {each["annotations"][names.CODE_ANNOTATION] for each in made}


def test_changed_code_is_rolled_out_by_a_second_cluster(player: Player) -> None:
    admin = player.admin
    player.awake()
    before = of_code(admin)
    generation = admin.get("RayService", NAME)["metadata"]["generation"]
    write_code(admin, "first", team="blue")
    write_code(admin, "second", team="blue")
    eventually("pods of other code", lambda: len(of_code(admin)) == 1 and of_code(admin) != before)
    found = admin.get("RayService", NAME)
    assert found["metadata"]["generation"] == generation + 1, "a label is no change of the code"
    assert found["spec"]["upgradeStrategy"] == {"type": "NewCluster"}
    assert PIPELINE.condition(admin, "Ready")["status"] == "True", "the first cluster answers"

    write_code(admin, "first")
    eventually("back", lambda: of_code(admin) == before)


def test_code_with_import_error_is_rolled_back_to_serving_cluster(player: Player) -> None:
    admin = player.admin
    player.awake()
    assert player.rolls_out("Complete")["currentRevisionNumber"] == 1
    before = of_code(admin)
    write_code(admin, "second")
    begun = player.rolls_out("Progressing")
    assert (begun["currentRevisionNumber"], begun["strategy"]) == (2, "BlueGreen")
    eventually("pods of other code", lambda: of_code(admin) != before)
    player.comes_beside("fghij", "DEPLOY_FAILED", NO_MODULE)
    assert PIPELINE.condition(admin, "Ready")["status"] == "True", "the first cluster answers"

    assert player.rolls_out("RollingBack")["currentRevisionNumber"] == 1
    eventually("the RayService of before", lambda: of_code(admin) == before)
    eventually("the second one is called off", lambda: not _pending(admin))
    player.says("RUNNING")
    message = PIPELINE.stalled(admin, "RolledBack")
    assert "revision 2 could not start, and revision 1" in message
    assert "No module named 'pipelines'" in message
    player.rolls_out("RolledBack")
    assert PIPELINE.condition(admin, "Ready")["status"] == "True"
    selector = names.owner_selector(OWNER)
    assert sorted(each["revision"] for each in admin.list("ControllerRevision", labelSelector=selector)) == [
        1,
        2,
    ]

    write_code(admin, "first")
    PIPELINE.stalled_no_more(admin)
    assert player.rolls_out("Complete")["currentRevisionNumber"] == 1


def _pending(admin: Admin) -> str:
    status = admin.get("RayService", NAME)["status"]
    return str((status.get("pendingServiceStatus") or {}).get("rayClusterName") or "")


def test_application_stalls_until_missing_code_exists(player: Player) -> None:
    admin = player.admin
    admin.delete("ConfigMap", CODE)
    admin.create(PIPELINE.manifest())
    assert f"ConfigMap {CODE}, which spec.code names" in PIPELINE.stalled(admin, "CodeNotFound")
    assert admin.get("Service", NAME)
    assert admin.get("RayService", NAME) is None
    write_code(admin, "first")
    player.starts()
    player.reaches("Awake", "Open")
    before = of_code(admin)

    admin.delete("ConfigMap", CODE)
    PIPELINE.stalled(admin, "CodeNotFound")
    assert PIPELINE.condition(admin, "Ready")["status"] == "True", "what runs has read its code"
    assert of_code(admin) == before
    write_code(admin, "first")
    PIPELINE.stalled_no_more(admin)
    assert of_code(admin) == before


def test_name_of_existing_service_is_reported_as_conflict(player: Player) -> None:
    admin = player.admin
    admin.create(tiny(NAME))
    eventually("the service's address", lambda: admin.get("Service", NAME))
    admin.create(PIPELINE.manifest())
    assert f"Service/{NAME}" in PIPELINE.stalled(admin, "NameConflict")
    owner = admin.get("RayService", NAME)["metadata"]["ownerReferences"][0]["kind"]
    assert owner == "LLMService"
    admin.delete("LLMService", NAME)
    eventually("it is made", lambda: PIPELINE.everything(admin))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"importPath": "pipeline.build"}, "spec.importPath"),
        ({"importPath": "pipeline:build()"}, "spec.importPath"),
        ({"deployments": [{"name": "A"}, {"name": "A"}]}, "Duplicate value"),
        ({"deployments": [{"name": "Not a name"}]}, "spec.deployments[0].name"),
        ({"deployments": [{"name": "A", "workerGroup": "Not_A_Name"}]}, "spec.deployments[0].workerGroup"),
        ({"workerGroups": [GROUP, GROUP]}, "Duplicate value"),
        ({"workerGroups": [{**GROUP, "name": "Not_A_Name"}]}, "spec.workerGroups[0].name"),
        ({"code": {"configMap": "Not_A_Name"}}, "spec.code.configMap"),
        ({"protocol": "OpenAI", "models": ["a", "a"]}, "Duplicate value"),
        ({"deployments": [{"name": "A", "accelerators": -0.5}]}, "greater than or equal to 0"),
        ({"deployments": [{"name": "A", "accelerators": 65}]}, "less than or equal to 64"),
        ({"deployments": []}, "spec.deployments"),
        ({"deployments": [{"name": "A", "accelerators": 1.5}]}, "a share of one accelerator is below 1"),
        ({"deployments": [{"name": "A", "numReplicas": 1, "autoscaling": {"maxReplicas": 2}}]}, "not both"),
        ({"code": {"configMap": "a", "workingDir": "s3://b/c.zip"}}, "write one of them"),
        ({"code": {"workingDir": "s3://b/c"}}, "spec.code.workingDir"),
        ({"sleep": {"clusterAfterIdle": "1h", "depth": "Cluster"}}, "requires depth Workers"),
        ({"protocol": "OpenAI"}, "models belong to protocol OpenAI"),
        ({"routes": [{"prefix": "/a/../b"}]}, "spec.routes[0].prefix"),
        ({"routes": [{"prefix": "/a"}, {"prefix": "/a"}]}, "Duplicate value"),
        ({"routes": [{"prefix": "/", "importPath": "a:b"}]}, "give the route another prefix"),
        ({"protocol": "V2", "routes": [{"prefix": "/a"}]}, "routes belong to protocol Any"),
        ({"rollout": {"strategy": "Sideways"}}, "spec.rollout.strategy"),
        ({"models": ["a"]}, "models belong to protocol OpenAI"),
        ({"llms": [LLM, LLM]}, "Duplicate value"),
        ({"llms": [LLM | {"parallelism": {"tensor": 2}}]}, "accelerator kind cpu has no parallelism"),
    ],
)
def test_api_server_rejects_invalid_spec(spec: dict[str, object], words: str, admin: Admin) -> None:
    with pytest.raises(Refused) as refused:
        admin.create(PIPELINE.manifest(**spec))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a" * 36, "may have at most 35 characters"),
        ("my.pipeline", "metadata.name"),
        (names.ROUTER, f"metadata.name must not be {names.ROUTER}"),
    ],
)
def test_api_server_rejects_invalid_name(name: str, words: str, admin: Admin) -> None:
    with pytest.raises(Refused) as refused:
        admin.create({**PIPELINE.manifest(), "metadata": {"name": name}})
    assert words in str(refused.value)


def test_accelerator_fraction_without_fitting_group_stalls_application(player: Player) -> None:
    admin = player.admin
    groups: list[dict[str, Any]] = [{"name": "small", "cpu": "1", "memory": "2Gi"}]
    wants = [{"name": "Pipeline", "workerGroup": "small", "accelerators": 0.5}]
    admin.create(PIPELINE.manifest(deployments=wants, workerGroups=groups))
    assert "needs 0.5 accelerators" in PIPELINE.stalled(admin, "InvalidSpec")
    assert admin.get("RayService", NAME) is None
    groups = [{**groups[0], "accelerators": 1}]
    admin.merge("ServeApplication", NAME, {"spec": {"workerGroups": groups}})
    eventually("it is made", lambda: PIPELINE.everything(admin))


def test_unknown_route_of_deployment_stalls_and_keeps_ray_service(player: Player) -> None:
    admin = player.admin
    player.awake()
    generation = admin.get("RayService", NAME)["metadata"]["generation"]
    wants = [{"name": "Pipeline", "cpu": "100m"}, {"name": "Length", "cpu": "100m", "route": "/length"}]
    admin.merge("ServeApplication", NAME, {"spec": {"deployments": wants}})
    assert "no route /length has an importPath" in PIPELINE.stalled(admin, "InvalidSpec")
    assert admin.get("RayService", NAME)["metadata"]["generation"] == generation
    routes = [{"prefix": "/length", "importPath": "length:build"}]
    admin.merge("ServeApplication", NAME, {"spec": {"routes": routes}})
    eventually("both", lambda: "app-length" in admin.get("RayService", NAME)["spec"]["serveConfigV2"])


def test_operator_does_not_write_to_unchanged_application(player: Player) -> None:
    player.awake()
    admin = player.admin

    def versions() -> dict[str, str]:
        found = PIPELINE.everything(admin) or {}
        return {kind: each["metadata"]["resourceVersion"] for kind, each in found.items()}

    before = versions()
    other = admin.merge("ServeApplication", NAME, {"metadata": {"annotations": {"a": "b"}}})
    for number in (1, 2):
        player.traffic(in_flight=number)
    eventually("requests are seen", lambda: PIPELINE.status(admin)["phase"] == "Awake")
    assert versions() == before
    own = admin.get("ServeApplication", NAME)["metadata"]["resourceVersion"]
    assert own == other["metadata"]["resourceVersion"]
