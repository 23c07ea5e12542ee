"""Reading manifests that others have written: whatever is missing or of another shape reads as empty."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Manifest = Mapping[str, Any]
"""A Kubernetes object in its JSON form."""


_NOTHING: Mapping[str, Any] = {}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    # The type of almost everything; the general test is ten times slower.
    if type(value) is dict:
        return value
    return value if isinstance(value, Mapping) else _NOTHING


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; anything else in it is passed over."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def at(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, or an empty one."""
    for step in path:
        value = mapping(value).get(step)
    return mapping(value)


def text(value: Any) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """The value if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def number(value: Any) -> float | None:
    """The value if it is a number, else None."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None


def condition(status: Any, kind: str) -> Mapping[str, Any]:
    """The condition of a type, or an empty one."""
    for item in mappings(mapping(status).get("conditions")):
        if item.get("type") == kind:
            return item
    return _NOTHING


def parse_time(written: str) -> datetime | None:
    """A time as Kubernetes writes it, or None."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def written(moment: datetime) -> str:
    """A time as Kubernetes writes it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
