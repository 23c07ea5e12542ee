"""Page docs/benchmark-api.md: every field of an LLMBenchmark, from its models and generated CRD."""

from daybreak.api.llmbenchmark import crd, definition
from daybreak.api.llmbenchmark.spec import LLMBenchmarkSpec
from daybreak.api.llmbenchmark.status import (
    BenchmarkConditionType,
    BenchmarkPhase,
    BenchmarkReason,
    LLMBenchmarkStatus,
)
from scripts.docs.batch_api import page

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# LLMBenchmark

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. [tuning.md](tuning.md) describes its behavior,
and [load-test.yaml](../manifests/samples/load-test.yaml) and [tuning.yaml](../manifests/samples/tuning.yaml)
are complete examples. `model` and `runtime` have the fields of an LLMService, see [Model](api.md#model) and
[Runtime](api.md#runtime). [api.md](api.md#reading-the-tables) explains the tables.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, starting with a letter.
"""


def benchmark_api_md() -> str:
    """Return the page docs/benchmark-api.md."""
    status = (LLMBenchmarkStatus, BenchmarkConditionType, BenchmarkReason, BenchmarkPhase)
    return page(HEAD, crd.CRD.schema(), LLMBenchmarkSpec, *status)
