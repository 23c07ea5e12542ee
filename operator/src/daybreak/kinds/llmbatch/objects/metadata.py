"""Names, labels and owner of the objects of a batch."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.resource import API_VERSION
from daybreak.api.llmbatch.definition import KIND, LLMBatch


def metadata(batch: LLMBatch, name: str, component: str) -> dict[str, Any]:
    """Metadata of an object that belongs to the batch and goes with it."""
    return {
        "name": name,
        "namespace": batch.namespace,
        "labels": names.labels(batch.workload.name, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": batch.name,
                "uid": batch.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
