"""The CustomResourceDefinition of LLMBatch, made from the models."""

from daybreak.api.llmbatch import definition
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.llmbatch.status import LLMBatchStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.structural import Schema

DESCRIPTION = "A table of prompts in, a table of answers out: a Ray job with vLLM, or through an LLMService."


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    return custom_resource.crd(definition.LLM_BATCHES, schema(), printer_columns())


def schema() -> Schema:
    """Structural schema of the whole object."""
    return custom_resource.object_schema(
        definition.LLM_BATCHES, DESCRIPTION, definition.NAME_RULES, LLMBatchSpec, LLMBatchStatus
    )


def printer_columns() -> list[Schema]:
    """What `kubectl get llmbatch` shows; columns of priority 1 only with `-o wide`."""
    return [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Failed", "type": "integer", "jsonPath": ".status.rows.failed"},
        {"name": "Rows/s", "type": "number", "jsonPath": ".status.rowsPerSecond"},
        {"name": "ETA", "type": "string", "jsonPath": ".status.eta"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "GPU-seconds", "type": "number", "jsonPath": ".status.gpuSeconds", "priority": 1},
        {
            "name": "Message",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Reconciling")].message',
            "priority": 1,
        },
    ]
