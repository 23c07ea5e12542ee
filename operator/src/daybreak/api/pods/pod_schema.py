"""Fields of a pod that KubeRay's CRD accepts, and problems of pod fields that users write.

The list is pod_schema.json, which scripts/schemas/pod_schema.py generates from KubeRay's CRD.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from daybreak import versions
from daybreak.api.common.engine_args import nearest
from daybreak.api.schema.scalars import parse_quantity

Type = str | Mapping[str, Any]
"""Type in the list: the name of a scalar, or a map, a list or a reference."""


@cache
def _document() -> Mapping[str, Any]:
    text = resources.files("daybreak.api.pods").joinpath("pod_schema.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def kuberay() -> str:
    """Return the KubeRay version that the list is generated from."""
    version: str = _document()["kuberay"]
    return version


def pod() -> Type:
    """Return the type of a pod's spec."""
    return {"ref": _document()["root"]}


def fields(kind: Type) -> Mapping[str, Type]:
    """Return the fields of an object's type."""
    if not isinstance(kind, Mapping) or "ref" not in kind:
        return {}
    found: Mapping[str, Type] = _document()["types"][kind["ref"]]["fields"]
    return found


def keys(kind: Type | None) -> tuple[str, ...]:
    """Return the key fields of a list's entries; empty if the list is one value."""
    return tuple(kind.get("keys", ())) if isinstance(kind, Mapping) else ()


def identity(entry: Any, kind: Type) -> tuple[Any, ...]:
    """Return the key values of an entry in a keyed list."""
    assert isinstance(kind, Mapping)  # noqa: S101 - only lists have entries
    defaults = _document()["types"].get(_name(kind["list"]), {}).get("defaults", {})
    given = entry if isinstance(entry, Mapping) else {}
    return tuple(given.get(key, defaults.get(key)) for key in keys(kind))


def _name(kind: Type) -> str:
    return str(kind.get("ref", "")) if isinstance(kind, Mapping) else ""


def problems(value: Any, path: str, kind: Type | None = None) -> Iterator[str]:
    """Yield unknown fields and wrong types in a pod's spec, each as one sentence with its path."""
    expected = pod() if kind is None else kind
    if isinstance(expected, str):
        if wrong := _scalar(value, expected):
            yield f"{path}: {_written(value)} is invalid in Kubernetes: {wrong}"
    elif "ref" in expected:
        yield from _object(value, path, expected["ref"])
    elif "list" in expected:
        yield from _list(value, path, expected["list"], expected)
    elif not isinstance(value, Mapping):
        yield f"{path}: {_written(value)} is no object"
    else:
        for key, part in value.items():
            yield from problems(part, f"{path}.{key}", expected["map"])


def _object(value: Any, path: str, kind: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: {_written(value)} is no object"
        return
    content = _document()["types"][kind]
    for name, part in value.items():
        if name in content["fields"]:
            yield from problems(part, f"{path}.{name}", content["fields"][name])
            continue
        near = nearest(name, tuple(content["fields"]))
        hint = f"; did you mean {near}?" if near else ""
        yield f"{path}.{name}: KubeRay {versions.KUBERAY} knows no such field of a pod{hint}"
    for name in content.get("required", ()):
        if name not in value and not (name == "containers" and kind == _document()["root"]):
            yield f"{path}.{name}: this field is needed"


def _list(value: Any, path: str, inner: Type, kind: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {_written(value)} is no list"
        return
    observed: dict[tuple[Any, ...], int] = {}
    for number, entry in enumerate(value):
        yield from problems(entry, f"{path}[{number}]", inner)
        if not keys(kind):
            continue
        known = identity(entry, kind)
        if known in observed and None not in known:
            shown = " ".join(map(str, known))
            yield f"{path}[{number}]: {shown} exists already, at {path}[{observed[known]}]"
        observed.setdefault(known, number)


def _scalar(value: Any, kind: str) -> str:
    """Return the form to write instead, or an empty string if the value is valid."""
    number = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "string" if not isinstance(value, str):
            return "write a text, in quotes"
        case "integer" if not number:
            return "write a whole number"
        case "boolean" if not isinstance(value, bool):
            return "write true or false"
        case "port" if not (number or isinstance(value, str)):
            return "write a number or a name"
        case "quantity":
            try:
                parse_quantity(str(value) if number else value if isinstance(value, str) else "")
            except ValueError:
                return "write a Kubernetes quantity, such as 500m, 4 or 16Gi"
    return ""


def _written(value: Any) -> str:
    """Return the value as JSON, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
