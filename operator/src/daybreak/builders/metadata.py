"""Names, labels and owner of the objects of a service."""

from typing import Any

from daybreak.api import names
from daybreak.api.llmservice import API_VERSION, KIND, LLMService


def metadata(svc: LLMService, name: str, component: str) -> dict[str, Any]:
    """Metadata of an object that belongs to the service and goes with it."""
    return {
        "name": name,
        "namespace": svc.namespace,
        "labels": names.labels(svc.name, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": svc.name,
                "uid": svc.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
