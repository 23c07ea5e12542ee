"""Ready means that an answer comes, and bounds reach the RayCluster that runs. KubeRay is played."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import condition, everything, model, settled, tiny
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay


@pytest.fixture
def played(admin: Admin, operator: OperatorProcess) -> PlayedKubeRay:
    """Yield a simulated KubeRay for a service `tiny` with its objects."""
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    return PlayedKubeRay(admin)


def ready(admin: Admin, status: str = "True") -> Any:
    """Return the service, when its condition Ready has that status."""
    service = settled(admin)
    return service if service and condition(service, "Ready").get("status") == status else None


def answer(answers: Path, admin: Admin, message: str = "") -> None:
    """Let `tiny` answer, or say something else instead."""
    (answers / f"{admin.namespace}.tiny").write_text(message)


def selected(admin: Admin) -> str:
    """Return the RayCluster that the front Service sends to."""
    return str(admin.get("Service", "tiny")["spec"]["selector"]["ray.io/cluster"])


def test_service_becomes_ready_with_first_answer(admin: Admin, played: PlayedKubeRay, answers: Path) -> None:
    assert selected(admin) == ""
    cluster = played.cluster("tiny")
    played.worker("tiny", cluster, "tiny")
    played.status("tiny", cluster)
    eventually("the front Service sends there", lambda: selected(admin) == cluster)
    # Every component reports healthy, but no model answers.
    service = eventually(
        "not answering", lambda: _with(admin, "Ready", "message", "nobody plays this service")
    )
    assert condition(service, "Ready")["status"] != "True"

    answer(answers, admin)
    service = eventually("ready", lambda: ready(admin))
    assert condition(service, "Stalled")["status"] == "False"
    [state] = service["status"]["models"]
    assert (state["state"], state["replicas"]) == ("Ready", 1)
    events = eventually("an event", lambda: _events(admin, "Serving"))
    assert len(events) == 1
    assert events[0]["regarding"]["uid"] == service["metadata"]["uid"]
    assert events[0]["type"] == "Normal"


def test_new_active_cluster_receives_traffic_and_is_probed_again(
    admin: Admin, played: PlayedKubeRay, answers: Path
) -> None:
    answer(answers, admin)
    old = played.cluster("tiny", "old00")
    played.worker("tiny", old, "tiny")
    played.status("tiny", old)
    eventually("ready", lambda: ready(admin))
    answer(answers, admin, "a cluster that does not answer")
    new = played.cluster("tiny", "new00")
    played.worker("tiny", new, "tiny")
    played.status("tiny", new)
    eventually("the front Service sends there", lambda: selected(admin) == new)
    eventually("asked again", lambda: _with(admin, "Ready", "message", "a cluster that does not answer"))
    answer(answers, admin)
    service = eventually("ready again", lambda: ready(admin))
    assert new in service["status"]["models"][0]["probedConfiguration"]


def test_engine_error_is_stated_in_condition_and_event(admin: Admin, played: PlayedKubeRay) -> None:
    cluster = played.cluster("tiny")
    message = "ValueError: /models/tiny does not exist"
    played.status("tiny", cluster, application="DEPLOY_FAILED", message=message)
    service = eventually("stalled", lambda: _with(admin, "Stalled", "status", "True"))
    assert condition(service, "Stalled")["reason"] == "ModelFailed"
    assert message in condition(service, "Ready")["message"]
    events = eventually("an event", lambda: _events(admin, "ModelFailed"))
    assert events[0]["type"] == "Warning"


def test_replica_bounds_are_written_to_running_cluster(admin: Admin, played: PlayedKubeRay) -> None:
    cluster = played.cluster("tiny")
    before = admin.get("RayCluster", cluster)
    # The autoscaler has been here.
    patch = [{"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1}]
    admin.request("PATCH", admin.path("RayCluster", cluster), patch, "application/json-patch+json")
    admin.merge("LLMService", "tiny", {"spec": {"models": [model(replicas={"min": 2, "max": 5})]}})
    eventually("bounds", lambda: _bounds(admin, cluster) == (2, 5))
    after = admin.get("RayCluster", cluster)
    [group] = after["spec"]["workerGroupSpecs"]
    assert group["replicas"] == 1, "left to the autoscaler"
    before["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 2, "maxReplicas": 5, "replicas": 1}
    assert after["spec"] == before["spec"]


def test_scale_subresource_sets_bounds_of_running_cluster(admin: Admin, played: PlayedKubeRay) -> None:
    cluster = played.cluster("tiny")
    admin.merge("LLMService", "tiny", {"spec": {"replicas": 3}}, subresource="scale")
    eventually("bounds", lambda: _bounds(admin, cluster) == (3, 3))
    admin.merge("LLMService", "tiny", {"spec": {"replicas": 0}}, subresource="scale")
    eventually("bounds", lambda: (_bounds(admin, cluster) or (1,))[0] == 0)


def _bounds(admin: Admin, cluster: str) -> tuple[int, int]:
    [group] = admin.get("RayCluster", cluster)["spec"]["workerGroupSpecs"]
    return group["minReplicas"], group["maxReplicas"]


def _with(admin: Admin, kind: str, field: str, text: str) -> Any:
    service = admin.get("LLMService", "tiny")
    return service if text in condition(service, kind).get(field, "") else None


def _events(admin: Admin, reason: str) -> list[Any]:
    return [event for event in admin.list("Event") if event["reason"] == reason]
