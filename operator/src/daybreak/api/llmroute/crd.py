"""The CustomResourceDefinition of LLMRoute, made from the models."""

from daybreak.api.llmroute import definition
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.llmroute.status import LLMRouteStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.structural import Schema

DESCRIPTION = "Names that clients send as a model, and that models of several services share."


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    return custom_resource.crd(LLM_ROUTES, schema(), printer_columns())


def schema() -> Schema:
    """Structural schema of the whole object."""
    return custom_resource.object_schema(
        LLM_ROUTES, DESCRIPTION, definition.NAME_RULES, LLMRouteSpec, LLMRouteStatus
    )


def printer_columns() -> list[Schema]:
    """What `kubectl get llmroutes` shows; columns of priority 1 only with `-o wide`."""
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Names", "type": "string", "jsonPath": ".status.names"},
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Backends", "type": "string", "jsonPath": ".status.backends[*].model", "priority": 1},
        {"name": "Weights", "type": "string", "jsonPath": ".status.backends[*].weight", "priority": 1},
        {"name": "Canary", "type": "string", "jsonPath": ".status.canary.phase", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": f"{ready}.message", "priority": 1},
    ]
