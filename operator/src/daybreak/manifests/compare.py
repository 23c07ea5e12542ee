"""Whether a live object is what was asked for, defaults and other people's additions aside."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

APPLIED = "daybreak.dev/applied"
"""Annotation on every owned object: digest of the manifest that was last applied. A field that is no longer
asked for is still there on the live object, where it cannot be told from a default; the digest tells."""

_COMPARED = ("labels", "annotations", "ownerReferences", "finalizers")


def digest(desired: Mapping[str, Any]) -> str:
    """Digest of a manifest."""
    return hashlib.sha256(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


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
            compare = _references if name == "ownerReferences" else _differs
            rest = compare(wanted, found, name)
            if rest is not None:
                return f"metadata.{name}{rest}"
    for name, wanted in desired.items():
        if name not in ("apiVersion", "kind", "metadata"):
            rest = _differs(wanted, live.get(name), name)
            if rest is not None:
                return f"{name}{rest}"
    return ""


def _differs(wanted: Any, found: Any, name: str) -> str | None:
    """How the path goes on from the field `name` to the first difference in it; None when there is none.

    Manifests are dictionaries and lists: `dict` is asked for, because asking for a Mapping takes longer than
    the comparison, and this is run for every field of everything that is written.
    """
    if found is None:
        # The API server leaves empty values out.
        return None if wanted in ({}, [], None, "") or wanted is False else ""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or (_atomic(name) and found.keys() - wanted.keys()):
            return ""
        for key, value in wanted.items():
            rest = _differs(value, found.get(key), key)
            if rest is not None:
                return f".{key}{rest}"
        return None
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list) or len(found) != len(wanted):
            return ""
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            rest = _differs(one, other, "")
            if rest is not None:
                return f"[{index}]{rest}"
        return None
    return None if wanted == found and isinstance(wanted, bool) == isinstance(found, bool) else ""


def _references(wanted: Any, found: Any, name: str) -> str | None:
    by_uid = {reference.get("uid"): reference for reference in found or ()}
    for reference in wanted:
        rest = _differs(reference, by_uid.get(reference["uid"]), name)
        if rest is not None:
            return rest
    return None


def _atomic(name: str) -> bool:
    """Maps that mean something else as soon as they have one key more: selectors."""
    return name.endswith(("elector", "matchLabels"))
