"""Names, labels and owner of the objects of a service."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.resource import API_VERSION
from daybreak.api.llmservice.definition import KIND, LLMService
from daybreak.api.pods.pod_template import PodMetadata


def metadata(svc: LLMService, name: str, component: str, more: PodMetadata | None = None) -> dict[str, Any]:
    """Metadata of an object that belongs to the service and goes with it; `more` is a person's own."""
    more = more or PodMetadata()
    whole: dict[str, Any] = {
        "name": name,
        "namespace": svc.namespace,
        "labels": {**more.labels, **names.labels(svc.name, component)},
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
    if more.annotations:
        whole["annotations"] = dict(more.annotations)
    return whole
