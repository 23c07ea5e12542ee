"""docs/batch-api.md: every field of an LLMBatch, from the models and the CRD that is made from them."""

from daybreak.api.llmbatch import crd, definition
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.llmbatch.status import BatchConditionType, BatchPhase, BatchReason, LLMBatchStatus
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from scripts.api_docs import sections, words

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# LLMBatch

`daybreak.dev/v1alpha1`. What it does and how it behaves is in [batch.md](batch.md), a whole one in
[manifests/samples](../manifests/samples/batch.yaml). `model` and `runtime` are those of an LLMService, see
[Model](api.md#model) and [Runtime](api.md#runtime); how tables are read is said there too.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter.
"""


def batch_api_md() -> str:
    """The whole page."""
    schema = crd.schema()["properties"]
    parts = [HEAD, "## Spec\n"]
    parts += [
        section.replace("](#model)", "](api.md#model)").replace("](#runtime)", "](api.md#runtime)")
        for section in sections(LLMBatchSpec, schema["spec"], (Model, Runtime))
    ]
    parts.append("## Status\n")
    parts += sections(LLMBatchStatus, schema["status"])
    parts.append("## Words in the status\n")
    parts.append(words("Conditions", BatchConditionType))
    parts.append(words("Reasons", BatchReason))
    parts.append(words("Phases", BatchPhase))
    return "\n".join(parts)
