"""Names, labels and owner of the objects of a service."""

from typing import Any

from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import KIND
from daybreak.api.pods.pod_template import PodMetadata


def metadata(svc: LLMService, name: str, component: str, more: PodMetadata | None = None) -> dict[str, Any]:
    """Return the metadata of an object that the service owns; `more` is the user's metadata."""
    whole = owned_metadata(KIND, svc, name, component)
    if more is None:
        return whole
    whole["labels"] = {**more.labels, **whole["labels"]}
    if more.annotations:
        whole["annotations"] = dict(more.annotations)
    return whole
