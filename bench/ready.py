"""Whether an object says that it is ready."""

from typing import Any


def is_ready(manifest: Any) -> bool:
    """Whether its condition Ready is True."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
