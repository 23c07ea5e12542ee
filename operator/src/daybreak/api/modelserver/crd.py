"""CustomResourceDefinition of ModelServer, generated from the models."""

from daybreak.api.gates.columns import queue_columns
from daybreak.api.modelserver import definition
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.api.schema import custom_resource
from daybreak.api.schema.custom_resource import ready

CRD = custom_resource.Definition(
    MODEL_SERVERS,
    "Model served by an engine container behind the gateway. It sleeps at zero pods.",
    definition.NAME_RULES,
    ModelServerSpec,
    ModelServerStatus,
    columns=[
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Engine", "type": "string", "jsonPath": ".spec.engine"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
        {"name": "URL", "type": "string", "jsonPath": ".status.url"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Rollout", "type": "string", "jsonPath": ".status.rollout.phase", "priority": 1},
        {
            "name": "Revision",
            "type": "integer",
            "jsonPath": ".status.rollout.currentRevisionNumber",
            "priority": 1,
        },
        *queue_columns(),
        {"name": "Accelerators", "type": "integer", "jsonPath": ".status.accelerators", "priority": 1},
        {"name": "Saved", "type": "number", "jsonPath": ".status.savings.savedSeconds", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ],
    short_names=(definition.SHORT_NAME,),
    scale=custom_resource.SCALE,
)
