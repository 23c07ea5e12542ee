"""CustomResourceDefinition of LLMBatch, generated from the models."""

from daybreak.api.llmbatch import definition
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.llmbatch.status import LLMBatchStatus
from daybreak.api.schema import custom_resource

CRD = custom_resource.Definition(
    definition.LLM_BATCHES,
    "Offline inference over a table of prompts, with vLLM in a Ray job or through a running service.",
    definition.NAME_RULES,
    LLMBatchSpec,
    LLMBatchStatus,
    columns=[
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Failed", "type": "integer", "jsonPath": ".status.rows.failed"},
        {"name": "Rows/s", "type": "number", "jsonPath": ".status.rowsPerSecond"},
        {"name": "ETA", "type": "string", "jsonPath": ".status.expectedCompletionTime"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {
            "name": "Accelerator-seconds",
            "type": "number",
            "jsonPath": ".status.acceleratorSeconds",
            "priority": 1,
        },
        {
            "name": "Message",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Reconciling")].message',
            "priority": 1,
        },
    ],
)
