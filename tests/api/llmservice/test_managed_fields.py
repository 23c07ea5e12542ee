"""Managers of the fields of owned objects, as the API server reports them; dropped fields go away."""

from typing import Any

import pytest

from daybreak.kube.writing import managed_fields
from tests.api.admin import JSON_PATCH, Admin, Refused, eventually
from tests.api.objects.llmservice import everything, model, tiny
from tests.api.operator_process import OperatorProcess

ON_A_POOL = {"accelerator": {"kind": "cpu", "nodeSelector": {"pool": "a"}}}


def test_first_change_turns_managed_fields_from_update_to_apply(
    admin: Admin, operator: OperatorProcess
) -> None:
    _made(admin)
    assert _records(admin) == {"Update"}
    _drop(admin)
    eventually("the dropped field gone", lambda: "nodeSelector" not in _worker(admin))
    assert _records(admin) == {"Apply"}


def test_dropped_field_is_removed_after_completed_hand_over(admin: Admin, operator: OperatorProcess) -> None:
    """The next one finds a record of applying, and applies."""
    made = _made(admin)
    admin.request("PATCH", admin.path("RayService", "tiny"), managed_fields.hand_over(made), JSON_PATCH)
    assert _records(admin) == {"Apply"}
    _drop(admin)
    eventually("the dropped field gone", lambda: "nodeSelector" not in _worker(admin))
    assert _records(admin) == {"Apply"}


def test_hand_over_of_changed_object_is_rejected(admin: Admin, operator: OperatorProcess) -> None:
    patch = managed_fields.hand_over(_made(admin))
    admin.merge("RayService", "tiny", {"metadata": {"labels": {"team": "search"}}})
    with pytest.raises(Refused) as refused:
        admin.request("PATCH", admin.path("RayService", "tiny"), patch, JSON_PATCH)
    assert refused.value.status == 409


def _made(admin: Admin) -> Any:
    admin.create(tiny(models=[model(**ON_A_POOL)]))
    eventually("all objects", lambda: everything(admin))
    assert _worker(admin)["nodeSelector"] == {"pool": "a"}
    return admin.get("RayService", "tiny")


def _drop(admin: Admin) -> None:
    admin.merge("LLMService", "tiny", {"spec": {"models": [model()]}})


def _worker(admin: Admin) -> Any:
    [group] = admin.get("RayService", "tiny")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    return group["template"]["spec"]


def _records(admin: Admin) -> set[str]:
    """Return the operations under which the operator's fields are recorded."""
    records = admin.get("RayService", "tiny")["metadata"]["managedFields"]
    return {each["operation"] for each in records if each["manager"] == "daybreak-operator"}
