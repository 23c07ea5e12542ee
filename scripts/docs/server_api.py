"""Page docs/model-server-api.md: every field of a ModelServer, from its models and generated CRD."""

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.gates.gate_status import Phase
from daybreak.api.modelserver import crd, definition
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.modelserver.status import ModelServerStatus
from scripts.docs.batch_api import page

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# ModelServer

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. What it does and how it behaves is in
[model-server.md](model-server.md), a whole one in
[model-server.yaml](../manifests/samples/model-server.yaml). How tables are read is said in [api.md](api.md).

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter;
not `llm`. An LLMService of the namespace cannot have the same name, since both make a Service of it.
"""


def server_api_md() -> str:
    """Return the whole page."""
    return page(HEAD, crd.CRD.schema(), ModelServerSpec, ModelServerStatus, ConditionType, Reason, Phase)
