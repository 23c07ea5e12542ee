"""Code of a ServeApplication in a ConfigMap: KubeRay makes a second Ray cluster for other code."""

from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.gpu.looks import read_message
from tests.gpu.played_serve import FAILURE

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator")]

KIND, CODE = "ServeApplication", "pipeline-code"
APPLICATION: dict[str, Any] = {
    "apiVersion": "daybreak.dev/v1alpha1",
    "kind": KIND,
    "metadata": {"name": "pipeline"},
    "spec": {
        "importPath": "pipeline:build",
        "code": {"configMap": CODE},
        "deployments": [{"name": "Pipeline", "cpu": "100m", "memory": "1Gi"}],
    },
}


def pods_code(admin: Admin, cluster: str) -> set[str]:
    """Return the digests of code of a Ray cluster's pods."""
    found = admin.list("Pod", labelSelector=f"{names.RAY_CLUSTER_LABEL}={cluster}")
    return {pod["metadata"]["annotations"].get(names.CODE_ANNOTATION, "") for pod in found}


@pytest.fixture
def code(admin: Admin) -> None:
    """The ConfigMap with its code."""
    files = {"pipeline.py": "build = 1"}
    admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE}, "data": files})


def rolled_out(admin: Admin, phase: str) -> dict[str, Any]:
    """Return the status, once its rollout is in that phase."""

    def there() -> dict[str, Any] | None:
        status: dict[str, Any] = admin.get(KIND, "pipeline").get("status") or {}
        return status if (status.get("rollout") or {}).get("phase") == phase else None

    return eventually(f"rollout {phase}", there, 90)


@pytest.mark.usefixtures("code")
def test_import_error_rolls_back_to_serving_cluster(admin: Admin) -> None:
    admin.create(APPLICATION)
    first = rolled_out(admin, "Complete")["rayCluster"]
    env = [{"name": "OTHER", "value": "pods"}]
    wrong = {"args": {FAILURE: "ModuleNotFoundError: No module named 'pipelines'"}, "runtime": {"env": env}}
    admin.merge(KIND, "pipeline", {"spec": wrong})
    back = rolled_out(admin, "RolledBack")
    assert back["rayCluster"] == first
    assert back["rollout"]["strategy"] == "BlueGreen"
    assert "No module named 'pipelines'" in back["rollout"]["message"]
    read_message(admin, "pipeline", "Ready", "True", of=KIND)
    read_message(admin, "pipeline", "Stalled", "True", of=KIND)

    def alone() -> bool:
        found = admin.list("RayCluster", labelSelector=names.owner_selector("application.pipeline"))
        return [each["metadata"]["name"] for each in found] == [first]

    eventually("the second cluster has gone", alone, 90)
    pending = admin.get("RayService", "pipeline")["status"].get("pendingServiceStatus") or {}
    assert not pending.get("rayClusterName")


@pytest.mark.usefixtures("code")
def test_changed_code_is_served_by_second_cluster(admin: Admin) -> None:
    admin.create(APPLICATION)
    read_message(admin, "pipeline", "Ready", "True", of=KIND)
    first = admin.get(KIND, "pipeline")["status"]["rayCluster"]
    [before] = pods_code(admin, first)
    assert before

    admin.merge("ConfigMap", CODE, {"data": {"pipeline.py": "build = 2"}})

    def taken_over() -> str:
        status = admin.get(KIND, "pipeline")["status"]
        ready = next(each["status"] for each in status["conditions"] if each["type"] == "Ready")
        assert ready == "True", "one of the two answers"
        now = str(status.get("rayCluster") or first)
        return now if now != first else ""

    second = eventually("the second cluster answers", taken_over)
    [after] = pods_code(admin, second)
    assert after not in ("", before)
    read_message(admin, "pipeline", "Reconciling", "False", of=KIND)
