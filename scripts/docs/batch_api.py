"""Page docs/batch-api.md: every field of an LLMBatch, from its models and generated CRD."""

from enum import StrEnum
from typing import Any

from daybreak.api.llmbatch import crd, definition
from daybreak.api.llmbatch.spec import LLMBatchSpec
from daybreak.api.llmbatch.status import BatchConditionType, BatchPhase, BatchReason, LLMBatchStatus
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.schema.base import ApiModel
from scripts.docs.llmservice_api import sections, words

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# LLMBatch

`daybreak.dev/v1alpha1`. What it does and how it behaves is in [batch.md](batch.md), a whole one in
[manifests/samples](../manifests/samples/batch.yaml). `model` and `runtime` are those of an LLMService, see
[Model](api.md#model) and [Runtime](api.md#runtime); how tables are read is said there too.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter.
"""


def batch_api_md() -> str:
    """Return the whole page."""
    status = (LLMBatchStatus, BatchConditionType, BatchReason, BatchPhase)
    return page(HEAD, crd.CRD.schema(), LLMBatchSpec, *status)


def page(
    head: str,
    schema: dict[str, Any],
    spec: type[ApiModel],
    status: type[ApiModel],
    conditions: type[StrEnum],
    reasons: type[StrEnum],
    phases: type[StrEnum],
) -> str:
    """Return the page of a kind with a job; its `model` and `runtime` link to those of an LLMService."""
    found = schema["properties"]
    parts = [head, "## Spec\n"]
    parts += [
        section.replace("](#model)", "](api.md#model)").replace("](#runtime)", "](api.md#runtime)")
        for section in sections(spec, found["spec"], (Model, Runtime))
    ]
    parts.append("## Status\n")
    parts += sections(status, found["status"])
    parts.append("## Words in the status\n")
    parts.append(words("Conditions", conditions))
    parts.append(words("Reasons", reasons))
    parts.append(words("Phases", phases))
    return "\n".join(parts)
