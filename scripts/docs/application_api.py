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

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. What it does and how it behaves is in
[applications.md](applications.md), a whole one in
[application.yaml](../manifests/samples/application.yaml). How tables are read is said in [api.md](api.md).

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter;
not `llm`. An LLMService or a ModelServer of the namespace cannot have the same name, since each makes a
Service of it.
"""


def application_api_md() -> str:
    """Return the whole page."""
    return page(
        HEAD, crd.CRD.schema(), ServeApplicationSpec, ServeApplicationStatus, ConditionType, Reason, Phase
    )
