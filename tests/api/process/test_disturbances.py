"""Disturbances of a whole cluster, on a separate control plane: no KubeRay yet, no nodes, no API server."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from tests.api.admin import OWNED, Admin, eventually
from tests.api.conftest import start_plane
from tests.api.objects.llmservice import NAMES, condition, everything, model, settled, tiny
from tests.api.operator_process import OperatorProcess
from tests.kuberay_crds import kuberay_crds

HEARTBEAT = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "alive"}


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """Yield a control plane without KubeRay's CRDs, garbage collector or nodes."""
    with start_plane("disturbed", kuberay=False) as plane:
        yield plane


@pytest.fixture
def hands(own_plane: ControlPlane) -> Iterator[Admin]:
    """Yield an administrator's `Admin`, and clean up afterwards."""
    admin = Admin(own_plane.kubeconfig)
    yield admin
    admin.delete("LLMService", "tiny")
    for kind in OWNED:
        if admin.get(kind, NAMES[kind]):
            admin.delete(kind, NAMES[kind])
    # There is no garbage collector here, and the next service may have the same content.
    for revision in admin.list("ControllerRevision"):
        admin.delete("ControllerRevision", revision["metadata"]["name"])


@pytest.fixture
def process(own_plane: ControlPlane, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Yield the operator."""
    with OperatorProcess(own_plane.kubeconfig, tmp_path / "log") as running:
        yield running


def test_service_stalls_until_kuberay_crds_are_installed(
    own_plane: ControlPlane, hands: Admin, process: OperatorProcess
) -> None:
    hands.create(tiny())
    service = eventually("said", lambda: _when(hands, "Stalled", "KubeRayNotInstalled"))
    assert "KubeRay" in condition(service, "Ready")["message"]
    assert process.page("/readyz") == "ok"
    own_plane.install_crds([kuberay_crds()])
    eventually("all objects", lambda: everything(hands))
    eventually(
        "no longer stalled", lambda: condition(settled(hands) or {}, "Stalled").get("status") == "False"
    )

    # And the other way: KubeRay is removed while services are there.
    hands.delete("CustomResourceDefinition", "rayservices.ray.io")
    eventually("said", lambda: _when(hands, "Stalled", "KubeRayNotInstalled"))
    own_plane.install_crds([kuberay_crds()])
    eventually("all objects", lambda: everything(hands))


def test_schedulable_condition_follows_nodes(
    own_plane: ControlPlane, hands: Admin, process: OperatorProcess
) -> None:
    own_plane.install_crds([kuberay_crds()])
    big = tiny(models=[model(accelerator={"kind": "gpu"}, parallelism={"tensor": 8})])
    del big["metadata"]["annotations"]
    _node(hands, "small", gpus=4)
    hands.create(big)
    service = eventually("said", lambda: _when(hands, "Schedulable", "NoNodeFits"))
    assert "8 nvidia.com/gpu" in condition(service, "Schedulable")["message"]
    assert "4" in condition(service, "Schedulable")["message"]
    eventually("all objects", lambda: everything(hands))

    _node(hands, "large", gpus=8)
    eventually("fits", lambda: _when(hands, "Schedulable", "NodesFit"))

    # Nodes that make no difference to a service cause no reconcile of it.
    before = process.at_rest()
    _node(hands, "third", gpus=8)
    hands.merge("Node", "small", {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}})
    hands.merge("Node", "large", {"metadata": {"labels": {"rack": "7"}}})
    hands.merge("Node", "large", {"status": {"conditions": [HEARTBEAT]}}, subresource="status")
    # As long as changes are gathered, and then spread.
    time.sleep(12)
    assert process.looked_at == before

    hands.delete("Node", "third")
    hands.delete("Node", "large")
    eventually("fits no more", lambda: _when(hands, "Schedulable", "NoNodeFits"))
    hands.delete("Node", "small")


def test_operator_continues_after_api_server_outage(
    own_plane: ControlPlane, hands: Admin, process: OperatorProcess
) -> None:
    own_plane.install_crds([kuberay_crds()])
    hands.create(tiny())
    eventually("all objects", lambda: everything(hands))
    own_plane.stop_apiserver()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        assert process.running
        assert process.page("/healthz") == "ok"
        time.sleep(0.5)
    own_plane.start_apiserver()
    # The operator observes changes of its objects that happen during the outage or right afterwards.
    hands.delete("Service", "tiny")
    eventually("the Service made again", lambda: hands.get("Service", "tiny"))
    hands.merge("LLMService", "tiny", {"spec": {"models": [model(replicas={"min": 2})]}})
    eventually(
        "a new spec carried out",
        lambda: hands.get("PodDisruptionBudget", "tiny-ray")["spec"]["minAvailable"] == 2,
    )
    assert process.running


def test_operator_recovers_from_outage_longer_than_its_lease(
    own_plane: ControlPlane, hands: Admin, process: OperatorProcess
) -> None:
    own_plane.install_crds([kuberay_crds()])
    hands.create(tiny())
    eventually("all objects", lambda: everything(hands))
    own_plane.stop_apiserver()
    try:
        eventually("it may not act", lambda: "lease" in process.page("/readyz"))
        assert process.page("/healthz") == "ok"
    finally:
        own_plane.start_apiserver()
    hands.delete("Service", "tiny")
    eventually("the Service made again", lambda: hands.get("Service", "tiny"), seconds=120)
    assert process.page("/readyz") == "ok"


def _when(admin: Admin, kind: str, reason: str) -> Any:
    service = admin.get("LLMService", "tiny")
    return service if condition(service, kind).get("reason") == reason else None


def _node(admin: Admin, name: str, gpus: int) -> None:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    status = {"status": {"allocatable": resources, "capacity": resources}}
    admin.merge("Node", name, status, subresource="status")
