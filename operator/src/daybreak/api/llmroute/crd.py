"""CustomResourceDefinition of LLMRoute, generated from the models."""

from daybreak.api.llmroute import definition
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.llmroute.status import LLMRouteStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.custom_resource import ready

CRD = custom_resource.Definition(
    LLM_ROUTES,
    "Model names that several models share by weight, with canaries, fallbacks and mirrors.",
    definition.NAME_RULES,
    LLMRouteSpec,
    LLMRouteStatus,
    columns=[
        {"name": "Names", "type": "string", "jsonPath": ".status.names"},
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Backends", "type": "string", "jsonPath": ".status.backends[*].model", "priority": 1},
        {"name": "Weights", "type": "string", "jsonPath": ".status.backends[*].weight", "priority": 1},
        {"name": "Canary", "type": "string", "jsonPath": ".status.canary.phase", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ],
)
