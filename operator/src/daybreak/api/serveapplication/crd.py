"""CustomResourceDefinition of ServeApplication, generated from the models."""

from daybreak.api.gates.columns import queue_columns
from daybreak.api.schema import custom_resource
from daybreak.api.schema.custom_resource import ready
from daybreak.api.serveapplication import definition
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.api.serveapplication.spec import ServeApplicationSpec
from daybreak.api.serveapplication.status import ServeApplicationStatus

CRD = custom_resource.Definition(
    SERVE_APPLICATIONS,
    "Custom Ray Serve code behind the gateway. It sleeps without accelerators.",
    definition.NAME_RULES,
    ServeApplicationSpec,
    ServeApplicationStatus,
    columns=[
        {"name": "Ready", "type": "string", "jsonPath": ready("status")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Reason", "type": "string", "jsonPath": ready("reason")},
        {"name": "Protocol", "type": "string", "jsonPath": ".spec.protocol"},
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
        {"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1},
    ],
    short_names=(definition.SHORT_NAME,),
)
