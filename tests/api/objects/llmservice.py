"""The LLMService that most API tests use, and how to look at it."""

from typing import Any

from tests.api.admin import Admin

NAMES = {
    "ServiceAccount": "tiny-sa",
    "NetworkPolicy": "tiny-ray",
    "PodDisruptionBudget": "tiny-ray",
    "Service": "tiny",
    "RayService": "tiny",
}
"""Names of the objects that the operator makes for `tiny`."""


def tiny(name: str = "tiny", **spec: Any) -> dict[str, Any]:
    """Return a small LLMService; `spec` is merged into its spec at the top."""
    model = {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}}
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        # There are no nodes here; tests/gpu has some.
        "metadata": {"name": name, "annotations": {"daybreak.dev/fit-check": "off"}},
        "spec": {"models": [model], **spec},
    }


def model(**fields: Any) -> dict[str, Any]:
    """Return the model of `tiny` with some fields changed."""
    return {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}, **fields}


def everything(admin: Admin) -> dict[str, Any] | None:
    """Return the owned objects of `tiny`, when all are there."""
    found = {kind: admin.get(kind, name) for kind, name in NAMES.items()}
    return found if all(found.values()) else None


def counted(admin: Admin) -> dict[str, Any] | None:
    """The owned objects of `tiny`, when all are there and the budget's controller has written its status."""
    found = everything(admin)
    return (
        found if found and found["PodDisruptionBudget"].get("status", {}).get("observedGeneration") else None
    )


def settled(admin: Admin, name: str = "tiny") -> Any:
    """Return the LLMService once its status reflects the current spec, or None."""
    service = admin.get("LLMService", name)
    report = service.get("status") or {}
    return service if report.get("observedGeneration") == service["metadata"]["generation"] else None


def condition(service: Any, kind: str) -> Any:
    """Return a condition of an LLMService; empty when it has none of that kind."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})
