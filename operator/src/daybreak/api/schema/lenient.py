"""Read a status that a user or another version may have written, without fields of another form."""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo


def readable(model: type[BaseModel], found: Any) -> dict[str, Any]:
    """Return the readable fields of a model, by their names; of a list, the readable items.

    Args:
        model: The model.
        found: Object as it appears in a manifest.
    """
    if not isinstance(found, Mapping):
        return {}
    kept = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key in found:
            try:
                kept[name] = _read(field, found[key])
            except ValidationError:
                continue
    return kept


def _read(field: FieldInfo, value: Any) -> Any:
    try:
        return _adapter(field.rebuild_annotation()).validate_python(value)
    except ValidationError:
        annotation = field.annotation
        if get_origin(annotation) is not list or not isinstance(value, list):
            raise
        [item] = get_args(annotation)
        found = [each for each in value if _fits(item, each)]
        return _adapter(field.rebuild_annotation()).validate_python(found)


def _fits(annotation: Any, value: Any) -> bool:
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
