"""An operator with other defaults, on a real API server; KubeRay, models and gateways are played."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import condition, model
from tests.api.objects.sleeper import GATEWAY, NAME, Sleeper, min_replicas
from tests.api.operator_process import OperatorProcess
from tests.api.playing.words import LONG_IDLE

OLD, NEW = "ray:old", "ray:new"
Operators = Callable[[str], OperatorProcess]


@pytest.fixture
def operators(alone: Any, traffic: Path) -> Operators:
    """Starts an operator with an image as its default; the one before must have ended."""

    def start(image: str) -> OperatorProcess:
        process: OperatorProcess = alone(
            "operator", RAY_CPU_IMAGE=image, PLAYED_TRAFFIC=str(traffic), **GATEWAY
        )
        process.start()
        process.wait_ready()
        return process

    return start


def ray(admin: Admin) -> Any:
    """Return the RayService."""
    return admin.get("RayService", NAME)


def images(ray_service: Any) -> set[str]:
    """Return the images of the service's pods."""
    config = ray_service["spec"]["rayClusterConfig"]
    groups = [config["headGroupSpec"], *config["workerGroupSpecs"]]
    return {group["template"]["spec"]["containers"][0]["image"] for group in groups}


def upgraded(operators: Operators, sleeper: Sleeper, first: OperatorProcess) -> tuple[OperatorProcess, Any]:
    """Another operator, which has looked at the service; and the RayService as it was before."""
    first.stop()
    before = ray(sleeper.admin)
    second = operators(NEW)
    eventually("it is told", lambda: sleeper.status()["defaults"]["outdated"])
    return second, before


def test_operator_upgrade_keeps_running_pods_and_sleep_applies_defaults(
    operators: Operators, sleeper: Sleeper
) -> None:
    admin, first = sleeper.admin, operators(OLD)
    sleeper.awake(sleep={"afterIdle": "1s"})
    message = sleeper.status()["defaults"]
    assert (message["image"], message["outdated"]) == (OLD, False)
    second, before = upgraded(operators, sleeper, first)
    assert ray(admin)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert second.metric("daybreak_writes_total", kind="RayService") == 0
    message = sleeper.status()["defaults"]
    assert (message["image"], message["next"]["image"]) == (OLD, NEW)
    assert NEW in condition(admin.get("LLMService", NAME), "Active")["message"]

    # What a person changes in place stays in place.
    admin.merge("LLMService", NAME, {"spec": {"replicas": 2}})
    eventually("two replicas", lambda: min_replicas(ray(admin)) == 2)
    assert images(ray(admin)) == {OLD}
    admin.merge("LLMService", NAME, {"spec": {"replicas": None}})
    eventually("one replica", lambda: min_replicas(ray(admin)) == 1)

    # The operator reverts another client's change, to the previous value.
    admin.merge("RayService", NAME, {"spec": {"rayClusterConfig": {"rayVersion": "9.9.9"}}})
    eventually("it is put back", lambda: ray(admin)["spec"] == before["spec"])

    sleeper.traffic(idle=LONG_IDLE)
    sleeper.reaches("Asleep", "Closed", "Workers")
    eventually(
        "another RayService",
        lambda: (found := ray(admin)) and found["metadata"]["uid"] != before["metadata"]["uid"],
    )
    assert images(ray(admin)) == {NEW}
    assert min_replicas(ray(admin)) == 0
    eventually("it is told", lambda: (sleeper.status().get("defaults") or {}).get("outdated") is False)
    eventually("the old cluster goes", lambda: not admin.list("RayCluster"))
    for pod in admin.list("Pod"):
        admin.delete("Pod", pod["metadata"]["name"])

    sleeper.silent()
    sleeper.traffic(held=1)
    sleeper.reaches("Waking", "Closed", None)
    sleeper.starts("fghij")
    sleeper.scaled((1, 1))
    sleeper.answers()
    sleeper.opened()
    assert images(ray(admin)) == {NEW}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"runtime": {"followDefaults": True}}, id="it follows"),
        pytest.param({"models": [model(engine={"args": {"max_num_seqs": 4}})]}, id="a change of the engine"),
    ],
)
def test_spec_change_applies_new_defaults(
    change: dict[str, Any], operators: Operators, sleeper: Sleeper
) -> None:
    first = operators(OLD)
    sleeper.awake()
    _, before = upgraded(operators, sleeper, first)
    assert ray(sleeper.admin)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    sleeper.admin.merge("LLMService", NAME, {"spec": change})
    eventually("new pods", lambda: images(ray(sleeper.admin)) == {NEW})
    assert ray(sleeper.admin)["metadata"]["uid"] == before["metadata"]["uid"]


def test_objects_without_record_of_defaults_are_unchanged_by_upgrade(
    operators: Operators, sleeper: Sleeper
) -> None:
    admin, first = sleeper.admin, operators(OLD)
    sleeper.awake()
    first.stop()
    admin.merge("RayService", NAME, {"metadata": {"annotations": {names.BUILT_WITH_ANNOTATION: None}}})
    before = ray(admin)
    operators(NEW)
    eventually("it is told", lambda: (sleeper.status().get("defaults") or {}).get("outdated"))
    assert sleeper.status()["defaults"]["image"] == OLD
    assert "operator" not in sleeper.status()["defaults"]
    assert ray(admin)["metadata"]["generation"] == before["metadata"]["generation"]
    assert ray(admin)["spec"] == before["spec"]
    sleeper.traffic(idle=0)
    admin.merge("LLMService", NAME, {"spec": {"replicas": 2}})
    eventually("two replicas", lambda: min_replicas(ray(admin)) == 2)
    assert images(ray(admin)) == {OLD}


def test_failed_service_takes_new_defaults(operators: Operators, sleeper: Sleeper) -> None:
    admin, first = sleeper.admin, operators(OLD)
    sleeper.create()
    eventually("a RayService", lambda: ray(admin))
    cluster = sleeper.kuberay.cluster(NAME)
    sleeper.kuberay.head(NAME, cluster)
    sleeper.kuberay.status(NAME, cluster, "DEPLOY_FAILED", "no such module")
    eventually(
        "it has failed", lambda: condition(admin.get("LLMService", NAME), "Stalled").get("status") == "True"
    )
    first.stop()
    operators(NEW)
    eventually("new pods", lambda: images(ray(admin)) == {NEW})
