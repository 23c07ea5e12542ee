"""The field manager's record of creates becomes one of applies; other managers' records stay unchanged."""

from typing import Any

from daybreak.kube.watching import trim
from daybreak.kube.writing import managed_fields


def record(manager: str = "daybreak-operator", operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", **more}


def manifest(*records: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "x", "resourceVersion": "7", "managedFields": list(records)}}


OURS = record(fieldsV1={"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}})
STATUS = record(subresource="status", fieldsV1={"f:status": {}})
THEIRS = record("kubectl", fieldsV1={"f:metadata": {}})


def test_own_update_record_becomes_apply_record() -> None:
    records, version = managed_fields.hand_over(manifest(THEIRS, OURS, STATUS))
    assert records["path"] == "/metadata/managedFields"
    assert records["value"] == [THEIRS, STATUS, {**OURS, "operation": "Apply"}]
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}


def test_own_update_and_apply_records_are_merged() -> None:
    """An older operator may have applied objects that a newer one created."""
    applied = record(operation="Apply", fieldsV1={"f:spec": {"f:b": {"f:d": {}}}, "f:metadata": {}})
    records, _ = managed_fields.hand_over(manifest(applied, OURS))
    [one] = records["value"]
    assert one["operation"] == "Apply"
    assert one["fieldsV1"] == {"f:metadata": {}, "f:spec": {"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}}


def test_hand_over_is_empty_without_own_update_record() -> None:
    applied = record(operation="Apply", fieldsV1={"f:spec": {}})
    for found in (manifest(applied, THEIRS, STATUS), {"metadata": {"name": "x", "resourceVersion": "7"}}):
        assert not managed_fields.made_by_us(found)
        assert managed_fields.hand_over(found) == []


def test_trimmed_object_still_shows_own_creation() -> None:
    made = trim.whole(manifest(THEIRS, OURS, STATUS))
    assert managed_fields.made_by_us(made)
    assert "fieldsV1" not in str(made)
    assert "managedFields" not in trim.whole(manifest(THEIRS, STATUS))["metadata"]
