"""CustomResourceDefinition of LLMService, generated from the models."""

from daybreak.api.gates.columns import queue_columns
from daybreak.api.llmservice import definition
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.custom_resource import ready

CRD = custom_resource.Definition(
    LLM_SERVICES,
    "Large language models with one OpenAI-compatible address, served by vLLM on Ray Serve and KubeRay.",
    definition.NAME_RULES,
    LLMServiceSpec,
    LLMServiceStatus,
    columns=[
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
        {"name": "URL", "type": "string", "jsonPath": ".status.url"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        *queue_columns(),
        {"name": "Accelerators", "type": "integer", "jsonPath": ".status.accelerators", "priority": 1},
        {"name": "Saved", "type": "number", "jsonPath": ".status.savings.savedSeconds", "priority": 1},
        {"name": "Rollout", "type": "string", "jsonPath": ".status.rollout.phase", "priority": 1},
        {
            "name": "Revision",
            "type": "integer",
            "jsonPath": ".status.rollout.currentRevisionNumber",
            "priority": 1,
        },
        {"name": "Outdated", "type": "boolean", "jsonPath": ".status.defaults.outdated", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ],
    short_names=(definition.SHORT_NAME,),
    scale=custom_resource.SCALE,
)
