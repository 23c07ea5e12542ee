"""Whose fields are whose: the records that the API server keeps in `metadata.managedFields`.

An object that is made by a POST has its fields recorded under the operation `Update`. Server-side apply
removes a field that is no longer asked for only when it is recorded under `Apply`, so before the first apply
the record is handed over. kubectl does the same when it moves from client-side to server-side apply.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from daybreak.api.common import names

APPLY, UPDATE = "Apply", "Update"

Record = Mapping[str, Any]


def made_by_us(manifest: Mapping[str, Any]) -> bool:
    """Whether an object bears the record of its making by us, to be handed over before an apply."""
    return any(_is_ours(record, UPDATE) for record in manifest["metadata"].get("managedFields") or ())


def marks(records: Iterable[Record] | None) -> list[dict[str, str]]:
    """What `made_by_us` needs of the records: a tenth of an object's size is in the rest."""
    return [
        {"manager": names.FIELD_MANAGER, "operation": UPDATE}
        for record in records or ()
        if _is_ours(record, UPDATE)
    ]


def hand_over(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """JSON patch that turns the record of our making into one of our applying, in this version of the object.

    Empty when there is nothing to hand over.
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
        # Replaced by itself: the API server answers with a conflict when the object has moved on.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
    ]


def _is_ours(record: Record, operation: str) -> bool:
    return (
        record.get("manager") == names.FIELD_MANAGER
        and record.get("operation") == operation
        and not record.get("subresource")
    )


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of either: sets of fields are trees of names, with empty leaves."""
    return {name: _union(one.get(name, {}), other.get(name, {})) for name in {**one, **other}}
