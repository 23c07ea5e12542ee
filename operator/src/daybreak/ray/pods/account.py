"""Default ServiceAccount of pods."""

from collections.abc import Mapping
from typing import Any


def account(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ServiceAccount without rights and without an automatically mounted token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": dict(metadata),
        "automountServiceAccountToken": False,
    }
