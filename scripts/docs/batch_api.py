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

`daybreak.dev/v1alpha1`. [batch.md](batch.md) describes its behavior, and
[batch.yaml](../manifests/samples/batch.yaml) is a complete example. `model` and `runtime` have the fields of
an LLMService, see [Model](api.md#model) and [Runtime](api.md#runtime). [api.md](api.md#reading-the-tables)
explains the tables.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, starting with a letter.
"""


def batch_api_md() -> str:
    """Return the page docs/batch-api.md."""
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
    """Return the page of a kind; links to `model` and `runtime` lead to the sections in docs/api.md."""
    found = schema["properties"]
    parts = [head, "## Spec\n"]
    parts += [
        section.replace("](#model)", "](api.md#model)").replace("](#runtime)", "](api.md#runtime)")
        for section in sections(spec, found["spec"], (Model, Runtime))
    ]
    parts.append("## Status\n")
    parts += sections(status, found["status"])
    parts.append("## Status values\n")
    parts.append(words("Conditions", conditions))
    parts.append(words("Reasons", reasons))
    parts.append(words("Phases", phases))
    return "\n".join(parts)
