"""Page docs/application-api.md: every field of a ServeApplication, from its models and generated CRD."""

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.gates.gate_status import Phase
from daybreak.api.serveapplication import crd, definition
from daybreak.api.serveapplication.spec import ServeApplicationSpec
from daybreak.api.serveapplication.status import ServeApplicationStatus
from scripts.docs.batch_api import page

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# ServeApplication

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. [applications.md](applications.md) describes
its behavior, [application.yaml](../manifests/samples/application.yaml) is a complete example, and
[api.md](api.md#reading-the-tables) explains the tables.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, starting with a letter;
`llm` is reserved. LLMServices, ModelServers and ServeApplications of a namespace need distinct names, because
each creates a Service of its name.
"""


def application_api_md() -> str:
    """Return the page docs/application-api.md."""
    return page(
        HEAD, crd.CRD.schema(), ServeApplicationSpec, ServeApplicationStatus, ConditionType, Reason, Phase
    )
