"""Bad input becomes a rejection or a condition with a clear message, and disturbs no other object."""

from typing import Any

import pytest

from tests.api.admin import Admin, Refused, eventually
from tests.api.objects.llmservice import NAMES, condition, counted, everything, model, settled, tiny
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tensor 0": (tiny(models=[model(parallelism={"tensor": 0})]), "spec.models[0].parallelism.tensor"),
    "a name too long for KubeRay": (tiny("a" * 48), "at most 41"),
    "two models of one name": (tiny(models=[model(), model()]), "name"),
    "a source of unknown scheme": (tiny(models=[model(source="ftp://somewhere/model")]), "source"),
    "no models": (tiny(models=[]), "spec.models"),
    "a field that does not exist": (tiny(modles=[]), "modles"),
}
STALLED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "an unknown engine argument": (
        tiny(models=[model(engine={"args": {"max_model_length": 8}})]),
        "InvalidSpec",
        ["spec.models[0].engine.args", "max_model_length", "max_model_len"],
    ),
    "a volume that is none": (
        tiny(runtime={"volumes": [{"name": "scratch", "hostPath": "/tmp"}]}),  # noqa: S108 -- never mounted
        "ObjectRejected",
        ["RayService", "hostPath"],
    ),
}


@pytest.fixture(autouse=True)
def neighbour(admin: Admin, operator: OperatorProcess) -> Any:
    """Yield a good service next to the bad one; its objects must stay as they are."""
    admin.create(tiny("neighbour"))
    eventually("the neighbour", lambda: admin.get("RayService", "neighbour"))
    eventually("its status", lambda: settled(admin, "neighbour"))
    before = _versions(admin)
    yield
    assert _versions(admin) == before
    assert operator.running


@pytest.mark.parametrize("case", REFUSED)
def test_api_server_rejects_invalid_service(case: str, admin: Admin) -> None:
    bad, expected = REFUSED[case]
    with pytest.raises(Refused, match=r"^4") as refusal:
        admin.request("POST", admin.path("LLMService") + "?fieldValidation=Strict", bad)
    assert refusal.value.status in (400, 422)
    assert expected in str(refusal.value)


@pytest.mark.parametrize("case", STALLED)
def test_bad_input_sets_stalled_condition_until_spec_is_corrected(case: str, admin: Admin) -> None:
    bad, reason, words = STALLED[case]
    admin.create(bad)
    service = eventually("stalled", lambda: _stalled(admin))
    assert condition(service, "Stalled")["reason"] == reason
    for word in words:
        assert word in condition(service, "Stalled")["message"]
    assert condition(service, "Ready")["status"] == "False"
    assert service["status"]["observedGeneration"] == 1

    good = tiny()["spec"]
    patch = {"spec": good | {"runtime": {"volumes": None}, "models": [model(engine={"args": {}})]}}
    admin.merge("LLMService", "tiny", patch)
    eventually("everything made", lambda: everything(admin))
    eventually("no longer stalled", lambda: not _stalled(admin) and settled(admin))


def test_invalid_change_leaves_existing_objects_unchanged(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(tiny())
    before = eventually("everything made", lambda: counted(admin))
    admin.merge("LLMService", "tiny", {"spec": {"models": [model(engine={"args": {"no_such": 1}})]}})
    service = eventually("stalled", lambda: _stalled(admin))
    assert "no_such" in condition(service, "Stalled")["message"]
    assert everything(admin) == before
    # Nothing has answered yet, so there is no revision to go back to: that is no reason to look without end.
    operator.at_rest()


PODS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an image that cannot be pulled": (
        {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nowhere/ray:1"'}},
        "ImagePullFailed",
        "nowhere/ray:1",
    ),
    "a Secret that does not exist": (
        {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "no-such" not found'}},
        "ContainerConfigFailed",
        "no-such",
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_container_error_of_kubelet_is_stated_in_ready_condition(case: str, admin: Admin) -> None:
    state, reason, word = PODS[case]
    admin.create(tiny())
    eventually("everything made", lambda: everything(admin))
    played = PlayedKubeRay(admin)
    cluster = played.cluster("tiny")
    played.status("tiny", cluster, application="DEPLOYING")
    pod = played.worker("tiny", cluster, "tiny", ready=False)
    name = admin.get("Pod", pod)["spec"]["containers"][0]["name"]
    message = {
        "name": name,
        "image": "nowhere/ray:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    admin.merge(
        "Pod",
        pod,
        {"status": {"phase": "Pending", "containerStatuses": [message | {"state": state}]}},
        "status",
    )
    service = eventually(reason, lambda: _when(admin, "Ready", reason) or _when(admin, "Stalled", reason))
    assert word in condition(service, "Ready")["message"]


def _when(admin: Admin, kind: str, reason: str) -> Any:
    service = admin.get("LLMService", "tiny")
    return service if condition(service, kind).get("reason") == reason else None


def _stalled(admin: Admin) -> Any:
    service = admin.get("LLMService", "tiny")
    return service if condition(service, "Stalled").get("status") == "True" else None


def _versions(admin: Admin) -> dict[str, str]:
    found = {kind: admin.get(kind, name.replace("tiny", "neighbour")) for kind, name in NAMES.items()}
    # Its controller counts pods in the budget's status.
    return {
        kind: str(
            each["metadata"].get("generation") if "Budget" in kind else each["metadata"]["resourceVersion"]
        )
        for kind, each in found.items()
    }
