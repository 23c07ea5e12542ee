"""Every change of a service ends where a fresh one with the same spec ends: set, changed, unset, set back."""

import itertools
from typing import Any

import pytest

from tests.api.admin import Admin, eventually
from tests.api.normal import normal
from tests.api.objects import NAMES, model, settled, tiny
from tests.api.operator_process import OperatorProcess

TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "own account": {"runtime": {"serviceAccountName": "mine", "priorityClassName": "high"}},
    "environment": {
        "runtime": {
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": TOKEN}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "imagePullSecrets": [{"name": "registry"}],
        }
    },
    "other environment": {"runtime": {"env": [{"name": "B", "value": "2"}], "image": "other/ray:1"}},
    "engine": {
        "models": [
            model(
                engine={"args": {"max_model_len": 1024, "max_num_seqs": 4}},
                replicas={"min": 0, "max": 4, "upscalingFactor": 2, "downscaleToZeroDelay": "20m"},
                serve={"maxOngoingRequests": 7, "maxQueuedRequests": 9},
                resources={"cpu": "3", "memory": "6Gi"},
            )
        ]
    },
    "two models": {"models": [model(), model(name="other", source="hf://a/b", token=TOKEN)]},
    "nodes": {
        "models": [
            model(
                accelerator={
                    "kind": "cpu",
                    "nodeSelector": {"pool": "big"},
                    "tolerations": [{"key": "big", "operator": "Exists"}],
                }
            )
        ],
        "runtime": {"head": {"nodeSelector": {"pool": "small"}, "resources": {"memory": "5Gi"}}},
    },
    "graphics": {
        "models": [model(accelerator={"kind": "gpu"}, parallelism={"tensor": 2})],
        "replicas": 2,
    },
}


@pytest.fixture(scope="module")
def fresh(plane: Any, operator: OperatorProcess) -> Any:
    """What a fresh service of each spec ends as."""
    everywhere = Admin(plane.kubeconfig)
    ends = {}
    for number, (name, spec) in enumerate(SPECS.items()):
        namespace = f"fresh-{number}"
        everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        admin = everywhere.within(namespace)
        admin.create(tiny(**spec))
        ends[name] = _wait(f"a fresh service: {name}", admin)
    yield ends
    for number in range(len(SPECS)):
        everywhere.delete("Namespace", f"fresh-{number}")


PAIRS = [*itertools.pairwise([*SPECS, "plain"]), ("environment", "engine"), ("graphics", "own account")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_changing_ends_as_a_fresh_one(first: str, second: str, fresh: Any, admin: Admin) -> None:
    admin.create(tiny(**SPECS[first]))
    _wait("the first spec", admin, fresh[first])
    for name in (second, first):
        service = admin.get("LLMService", "tiny")
        service["spec"] = tiny(**SPECS[name])["spec"]
        admin.request("PUT", admin.path("LLMService", "tiny"), service)
        _wait(f"{name} as a fresh one", admin, fresh[name])


def _wait(what: str, admin: Admin, wanted: Any = None) -> Any:
    return eventually(what, lambda: (end := _end(admin)) and (wanted is None or end == wanted) and end)


def _end(admin: Admin) -> Any:
    """The objects of the service when its status speaks of its present spec; else None."""
    if not settled(admin):
        return None
    return normal(admin, {kind: found for kind, name in NAMES.items() if (found := admin.get(kind, name))})
