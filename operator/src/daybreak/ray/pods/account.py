"""The ServiceAccount of pods, where a person has named none."""

from collections.abc import Mapping
from typing import Any


def account(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """An account without rights of its own, whose token is mounted nowhere by itself."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": dict(metadata),
        "automountServiceAccountToken": False,
    }
