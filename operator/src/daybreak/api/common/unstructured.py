"""Readers of manifests from other writers: missing or malformed values read as empty."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Manifest = Mapping[str, Any]
"""Kubernetes object in its JSON form."""


_NOTHING: Mapping[str, Any] = {}


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object; otherwise, an empty object."""
    # Almost every value is a dict, and the general test is ten times slower.
    if type(value) is dict:
        return value
    return value if isinstance(value, Mapping) else _NOTHING


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list without its other elements."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def at(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the object at a path, or an empty one."""
    for step in path:
        value = mapping(value).get(step)
    return mapping(value)


def text(value: Any) -> str:
    """Return the value if it is text; otherwise, an empty text."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """Return the value if it is an integer; otherwise, 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def number(value: Any) -> float | None:
    """Return the value if it is a number, or None."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None


def condition(status: Any, kind: str) -> Mapping[str, Any]:
    """Return the condition of a type, or an empty object."""
    for item in mappings(mapping(status).get("conditions")):
        if item.get("type") == kind:
            return item
    return _NOTHING


def parse_time(written: str) -> datetime | None:
    """Return the time in Kubernetes' format, or None if it cannot be parsed."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def written(moment: datetime) -> str:
    """Return the time in Kubernetes' format, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
