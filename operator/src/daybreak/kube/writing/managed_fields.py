"""Ownership of fields, which the API server records in `metadata.managedFields`.

The fields of an object created by a POST are recorded under the operation `Update`. Server-side apply removes
a field that is no longer desired only if it is recorded under `Apply`. Therefore the record is handed over
before the first apply. kubectl does the same when it moves from client-side to server-side apply.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from daybreak.api.common import names

APPLY, UPDATE = "Apply", "Update"

Record = Mapping[str, Any]


def made_by_us(manifest: Mapping[str, Any]) -> bool:
    """Return True if an object has the record of its creation by Daybreak.

    The record must be handed over before an apply.
    """
    return any(_is_ours(record, UPDATE) for record in manifest["metadata"].get("managedFields") or ())


def marks(records: Iterable[Record] | None) -> list[dict[str, str]]:
    """Return the parts of the records that `made_by_us` needs: the rest is a tenth of an object's size."""
    return [
        {"manager": names.FIELD_MANAGER, "operation": UPDATE}
        for record in records or ()
        if _is_ours(record, UPDATE)
    ]


def hand_over(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch that turns the record of Daybreak's creation into one of its apply.

    The patch is for this version of the object, and empty if there is nothing to hand over.
    """
    metadata = manifest["metadata"]
    records: list[Record] = metadata.get("managedFields") or []
    ours = [record for record in records if _is_ours(record, UPDATE) or _is_ours(record, APPLY)]
    made = [record for record in ours if record["operation"] == UPDATE]
    if not made:
        return []
    fields: dict[str, Any] = {}
    for record in ours:
        fields = _union(fields, record.get("fieldsV1") or {})
    others = [record for record in records if record not in ours]
    applied = {**made[-1], "operation": APPLY, "fieldsV1": fields}
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": [*others, applied]},
        # Replaced by the same value: the API server responds with a conflict if the object has changed.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
    ]


def _is_ours(record: Record, operation: str) -> bool:
    return (
        record.get("manager") == names.FIELD_MANAGER
        and record.get("operation") == operation
        and not record.get("subresource")
    )


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two sets of fields, which are trees of names with empty leaves."""
    return {name: _union(one.get(name, {}), other.get(name, {})) for name in {**one, **other}}
