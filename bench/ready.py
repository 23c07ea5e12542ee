"""Readiness of an object from its conditions."""

from typing import Any


def is_ready(manifest: Any) -> bool:
    """Return True if the object's condition `Ready` is True."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
