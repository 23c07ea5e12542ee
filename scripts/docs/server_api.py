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

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. [model-server.md](model-server.md) describes
its behavior, [model-server.yaml](../manifests/samples/model-server.yaml) is a complete example, and
[api.md](api.md#reading-the-tables) explains the tables.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, starting with a letter;
`llm` is reserved. An LLMService of the namespace must have another name, because both create a Service of
their name.
"""


def server_api_md() -> str:
    """Return the page docs/model-server-api.md."""
    return page(HEAD, crd.CRD.schema(), ModelServerSpec, ModelServerStatus, ConditionType, Reason, Phase)
