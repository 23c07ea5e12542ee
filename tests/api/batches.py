"""The LLMBatch of the API tests, and how to look at it."""

from typing import Any

from tests.api.admin import Admin, eventually

OBJECTS = {"ServiceAccount": "batch.night-sa", "NetworkPolicy": "batch.night-ray", "RayJob": "night"}
SPEC: dict[str, Any] = {
    "model": {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}},
    "input": {"uri": "pvc://rows/in.jsonl"},
    "output": {"uri": "pvc://rows/out"},
    "prompt": "{{ question }}",
}


def night(**spec: Any) -> dict[str, Any]:
    """A batch."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBatch",
        "metadata": {"name": "night"},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
    }


def everything(admin: Admin) -> dict[str, Any] | None:
    """The owned objects, when all are there."""
    found = {kind: admin.get(kind, name) for kind, name in OBJECTS.items()}
    return found if all(found.values()) else None


def status(admin: Admin) -> dict[str, Any]:
    """What the operator says."""
    found: dict[str, Any] = (admin.get("LLMBatch", "night") or {}).get("status") or {}
    return found


def phase(admin: Admin, wanted: str) -> dict[str, Any]:
    """The status, when it has that phase."""
    return eventually(
        f"phase {wanted}", lambda: found if (found := status(admin)).get("phase") == wanted else None
    )
