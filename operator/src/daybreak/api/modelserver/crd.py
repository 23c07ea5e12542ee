"""The CustomResourceDefinition of ModelServer, made from the models."""

from daybreak.api.gates.columns import queue_columns
from daybreak.api.modelserver import definition
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.custom_resource import ready
from daybreak.api.schema.structural import Schema

DESCRIPTION = "An engine in a container with one model, behind the gateway: it sleeps at zero pods."


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    names = (definition.SHORT_NAME,)
    return custom_resource.crd(
        MODEL_SERVERS, schema(), printer_columns(), short_names=names, scale=custom_resource.SCALE
    )


def schema() -> Schema:
    """Structural schema of the whole object."""
    return custom_resource.object_schema(
        MODEL_SERVERS, DESCRIPTION, definition.NAME_RULES, ModelServerSpec, ModelServerStatus
    )


def printer_columns() -> list[Schema]:
    """What `kubectl get ms` shows; columns of priority 1 only with `-o wide`."""
    return [
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Engine", "type": "string", "jsonPath": ".spec.engine"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
        {"name": "URL", "type": "string", "jsonPath": ".status.url"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Rollout", "type": "string", "jsonPath": ".status.rollout.phase", "priority": 1},
        {"name": "Revision", "type": "integer", "jsonPath": ".status.rollout.number", "priority": 1},
        *queue_columns(),
        {"name": "GPUs", "type": "integer", "jsonPath": ".status.gpus", "priority": 1},
        {"name": "Saved", "type": "number", "jsonPath": ".status.savings.givenBack", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ]
