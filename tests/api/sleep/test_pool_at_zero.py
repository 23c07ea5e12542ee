"""A pool of GPU nodes that an autoscaler holds at zero, on a real API server; the autoscaler is played."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.conftest import start_plane
from tests.api.objects.llmservice import condition, model, tiny
from tests.api.operator_process import PLAYED_OPERATOR, OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay

GPU = "nvidia.com/gpu"
POOL = {"pool": "gpu"}


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """Yield a control plane with dedicated nodes."""
    with start_plane("pool", controllers=True) as plane:
        yield plane


def node(admin: Admin, name: str, labels: dict[str, str], **offers: str) -> None:
    """A node, as an autoscaler adds one."""
    metadata = {"name": name, "labels": labels}
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    allocatable = {"cpu": "64", "memory": "2Ti", "pods": "110", **offers}
    admin.merge("Node", name, {"status": {"allocatable": allocatable, "capacity": allocatable}}, "status")


class Autoscaler:
    """Adds a node for a pod that waits, as an autoscaler of a cluster does; it sees nothing but pods."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def look(self) -> str:
        """Look once: adds a node for the first pod that waits for GPUs, and has it placed there. Its name."""
        for pod in self._admin.list("Pod"):
            limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
            if pod["spec"].get("nodeName") or GPU not in limits:
                continue
            node(self._admin, "gpu-1", POOL, **{GPU: limits[GPU]})
            name: str = pod["metadata"]["name"]
            self._admin.request(
                "POST",
                f"{self._admin.path('Pod', name)}/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": {"kind": "Node", "name": "gpu-1"},
                },
            )
            return name
        return ""


def read_message(admin: Admin, kind: str) -> tuple[str, str]:
    """Return the status and reason of a condition."""
    found = condition(admin.get("LLMService", "tiny"), kind)
    return str(found.get("status")), str(found.get("reason"))


def test_service_becomes_ready_after_autoscaler_adds_gpu_node(
    own_plane: ControlPlane, tmp_path: Path, answers: Path
) -> None:
    admin = Admin(own_plane.kubeconfig)
    eventually("the default account", lambda: admin.get("ServiceAccount", "default"))
    node(admin, "head-1", {"pool": "cpu"})
    settings = {"PLAYED_ANSWERS": str(answers)}
    with OperatorProcess(
        own_plane.kubeconfig, tmp_path / "log", program=PLAYED_OPERATOR, **settings
    ) as process:
        manifest: dict[str, Any] = tiny(
            models=[model(accelerator={"kind": "gpu", "nodeSelector": POOL}, parallelism={"tensor": 8})]
        )
        del manifest["metadata"]["annotations"]
        admin.create(manifest)
        eventually("it is told", lambda: read_message(admin, "Schedulable") == ("False", "NoNodeFits"))
        assert "8 nvidia.com/gpu" in condition(admin.get("LLMService", "tiny"), "Schedulable")["message"]
        assert read_message(admin, "Ready") == ("False", "NoNodeFits")
        assert read_message(admin, "Stalled") == ("True", "NoNodeFits")
        eventually("a RayService", lambda: admin.get("RayService", "tiny"))

        kuberay = PlayedKubeRay(admin)
        cluster = kuberay.cluster("tiny")
        kuberay.head("tiny", cluster)
        waits = kuberay.worker("tiny", cluster, names.worker_group("tiny"), placed=False)
        writes = process.metric("daybreak_writes_total", kind="RayService")
        assert Autoscaler(admin).look() == waits
        eventually("it fits", lambda: read_message(admin, "Schedulable") == ("True", "NodesFit"))
        eventually("no action required", lambda: read_message(admin, "Stalled")[0] == "False")
        kuberay.runs(waits)
        kuberay.status("tiny", cluster)
        (answers / f"{admin.namespace}.tiny").write_text("")
        eventually("it is ready", lambda: read_message(admin, "Ready") == ("True", "Serving"))
        assert process.metric("daybreak_writes_total", kind="RayService") == writes
