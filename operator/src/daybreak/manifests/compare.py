"""Comparison of a live object with the desired one, which ignores defaults and additions of other writers."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

APPLIED = "daybreak.dev/applied"
"""Annotation on every owned object with the digest of the last applied manifest. A field that is no longer
desired remains on the live object, where it looks like a default. The digest reveals it."""

_COMPARED = ("labels", "annotations", "ownerReferences", "finalizers")


def digest(desired: Mapping[str, Any]) -> str:
    """Return the digest of a manifest."""
    return hashlib.sha256(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def stamped(desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with its digest as an annotation."""
    metadata = desired["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def difference(desired: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """Return the path of the first field that differs from the desired object; empty if there is none.

    The live object may have additional keys (the API server's defaults, labels of other writers), but no
    additional list elements, except for owner references.
    """
    for name, expected in desired["metadata"].items():
        if name in _COMPARED:
            found = live["metadata"].get(name)
            compare = _references if name == "ownerReferences" else _differs
            rest = compare(expected, found, name)
            if rest is not None:
                return f"metadata.{name}{rest}"
    for name, expected in desired.items():
        if name not in ("apiVersion", "kind", "metadata"):
            rest = _differs(expected, live.get(name), name)
            if rest is not None:
                return f"{name}{rest}"
    return ""


def _differs(desired: Any, found: Any, name: str) -> str | None:
    """Return the path from the field `name` to the first difference in it, or None if there is none.

    Manifests are dictionaries and lists. The code checks for `dict`, because a check for Mapping takes longer
    than the comparison, which runs for every field of every written object.
    """
    if found is None:
        # The API server omits empty values.
        return None if desired in ({}, [], None, "") or desired is False else ""
    if isinstance(desired, dict):
        if not isinstance(found, dict) or (_atomic(name) and found.keys() - desired.keys()):
            return ""
        for key, value in desired.items():
            rest = _differs(value, found.get(key), key)
            if rest is not None:
                return f".{key}{rest}"
        return None
    if isinstance(desired, list | tuple):
        if not isinstance(found, list) or len(found) != len(desired):
            return ""
        for index, (one, other) in enumerate(zip(desired, found, strict=True)):
            rest = _differs(one, other, "")
            if rest is not None:
                return f"[{index}]{rest}"
        return None
    return None if desired == found and isinstance(desired, bool) == isinstance(found, bool) else ""


def _references(desired: Any, found: Any, name: str) -> str | None:
    by_uid = {reference.get("uid"): reference for reference in found or ()}
    for reference in desired:
        rest = _differs(reference, by_uid.get(reference["uid"]), name)
        if rest is not None:
            return rest
    return None


def _atomic(name: str) -> bool:
    """Return True for maps whose meaning changes with one additional key: selectors."""
    return name.endswith(("elector", "matchLabels"))
