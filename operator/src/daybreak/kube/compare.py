"""Whether a live object is what was asked for, defaults and other people's additions aside."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

APPLIED = "daybreak.dev/applied"
"""Annotation on every owned object: digest of the manifest that was last applied. A field that is no longer
asked for is still there on the live object, where it cannot be told from a default; the digest tells."""

_COMPARED = ("labels", "annotations", "ownerReferences", "finalizers")


def digest(desired: Mapping[str, Any]) -> str:
    """Digest of a manifest."""
    text = json.dumps(desired, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(desired: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its digest as an annotation."""
    metadata = desired["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def difference(desired: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """Path of the first field in which the live object is not what was asked for; empty when there is none.

    A key that was not asked for may be there (the API server's defaults, other people's labels); an element
    of a list may not, except for owner references.
    """
    for name, wanted in desired["metadata"].items():
        if name in _COMPARED:
            found = live["metadata"].get(name)
            path = f"metadata.{name}"
            different = (
                _references(wanted, found, path)
                if name == "ownerReferences"
                else _differs(wanted, found, path)
            )
            if different:
                return different
    for name, wanted in desired.items():
        if name not in ("apiVersion", "kind", "metadata"):
            different = _differs(wanted, live.get(name), name)
            if different:
                return different
    return ""


def _differs(wanted: Any, found: Any, path: str) -> str:
    if found is None:
        # The API server leaves empty values out.
        return "" if wanted in ({}, [], None, "") or wanted is False else path
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return path
        if _atomic(path) and set(found) - set(wanted):
            return path
        for key, value in wanted.items():
            different = _differs(value, found.get(key), f"{path}.{key}")
            if different:
                return different
        return ""
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list) or len(found) != len(wanted):
            return path
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            different = _differs(one, other, f"{path}[{index}]")
            if different:
                return different
        return ""
    return "" if wanted == found and isinstance(wanted, bool) == isinstance(found, bool) else path


def _references(wanted: Any, found: Any, path: str) -> str:
    by_uid = {reference.get("uid"): reference for reference in found or ()}
    for reference in wanted:
        different = _differs(reference, by_uid.get(reference["uid"]), path)
        if different:
            return different
    return ""


def _atomic(path: str) -> bool:
    """Maps that mean something else as soon as they have one key more: selectors."""
    return path.endswith(("elector", ".matchLabels"))
