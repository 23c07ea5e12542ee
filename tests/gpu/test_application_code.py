"""Code of a ServeApplication in a ConfigMap: KubeRay makes a second Ray cluster for other code."""

from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.gpu.looks import said

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
    """The digests of code that the pods of a Ray cluster bear."""
    found = admin.list("Pod", labelSelector=f"{names.RAY_CLUSTER_LABEL}={cluster}")
    return {pod["metadata"]["annotations"].get(names.CODE_ANNOTATION, "") for pod in found}


def test_other_code_takes_over_from_a_second_cluster(admin: Admin) -> None:
    files = {"pipeline.py": "build = 1"}
    admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE}, "data": files})
    admin.create(APPLICATION)
    said(admin, "pipeline", "Ready", "True", of=KIND)
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
    said(admin, "pipeline", "Reconciling", "False", of=KIND)
