"""The operator with the chart's own rights and settings, and no others, on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from tests.api.admin import Admin, eventually
from tests.api.conftest import PLAYED_OPERATOR
from tests.api.objects import NAMES, everything, model, settled, tiny
from tests.api.operator_process import OperatorProcess
from tests.api.played import PlayedKubeRay
from tests.chart.tools import Helm, Manifest, of_kind

USER = "daybreak-with-the-charts-rights"
ROLES = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture(params=["namespaced", "cluster"])
def process(
    request: pytest.FixtureRequest, plane: ControlPlane, admin: Admin, tmp_path: Path, answers: Path
) -> Iterator[OperatorProcess]:
    """The operator as the chart installs it, for one namespace or for all."""
    namespaced = request.param == "namespaced"
    rendered = Helm().template(
        "--set", f"watch.namespaced={str(namespaced).lower()}", namespace=admin.namespace
    )
    rights = [_for_user(each) for kind in ROLES for each in of_kind(rendered, kind) if _operators(each)]
    plane.apply("\n---\n".join(map(json.dumps, [*rights, *of_kind(rendered, "Lease")])))
    kubeconfig = tmp_path / "kubeconfig"
    plane.write_kubeconfig(kubeconfig, USER, [])
    settings = _settings(rendered, admin.namespace)
    assert settings["NAMESPACE"] == (admin.namespace if namespaced else "")
    settings |= {"PLAYED_ANSWERS": str(answers)}
    running = OperatorProcess(kubeconfig, tmp_path / "log", "operator", PLAYED_OPERATOR, **settings)
    running.start()
    running.wait_ready()
    yield running
    assert running.stop() == 0
    for each in rights:
        if each["kind"].startswith("Cluster"):
            plane.kubectl("delete", each["kind"], each["metadata"]["name"])


def test_enough_and_nothing_asked_for_beyond(
    process: OperatorProcess, admin: Admin, answers: Path, request: pytest.FixtureRequest
) -> None:
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    played = PlayedKubeRay(admin)
    cluster = played.cluster("tiny")
    played.worker("tiny", cluster, "tiny")
    (answers / f"{admin.namespace}.tiny").write_text("")
    played.status("tiny", cluster)
    eventually("an event", lambda: [each for each in admin.list("Event") if each["reason"] == "Answering"])
    patch = {"spec": {"models": [model(replicas={"min": 2})], "runtime": {"serviceAccountName": "default"}}}
    admin.merge("LLMService", "tiny", patch)
    eventually("an object deleted", lambda: admin.get("ServiceAccount", NAMES["ServiceAccount"]) is None)
    eventually(
        "bounds carried over",
        lambda: admin.get("RayCluster", cluster)["spec"]["workerGroupSpecs"][0]["minReplicas"] == 2,
    )
    eventually("a status", lambda: settled(admin))
    assert process.metric("daybreak_api_requests_total", code="403") == 0
    assert "orbidden" not in process.log()
    asked_for_nodes = process.metric("daybreak_api_requests_total", resource="nodes")
    assert (asked_for_nodes == 0) == ("namespaced" in request.node.name)


def _operators(manifest: Manifest) -> bool:
    """Whether a role is the operator's own, not one for people."""
    return not any("aggregate" in label for label in manifest["metadata"].get("labels") or {})


def _for_user(manifest: Manifest) -> Manifest:
    if "subjects" not in manifest:
        return manifest
    return manifest | {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]}


def _settings(rendered: list[Manifest], namespace: str) -> dict[str, str]:
    """The variables of the chart's Deployment, with the downward API's as a kubelet would fill them in."""
    [deployment] = of_kind(rendered, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    found: dict[str, str] = {}
    for variable in container["env"]:
        if variable["name"].startswith("DAYBREAK_"):
            found[variable["name"].removeprefix("DAYBREAK_")] = _value(variable, namespace)
    del found["HTTP_PORT"]
    return found


def _value(variable: dict[str, Any], namespace: str) -> str:
    if "valueFrom" not in variable:
        return str(variable.get("value") or "")
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    return namespace
