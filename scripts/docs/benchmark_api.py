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

`daybreak.dev/v1alpha1`, short name `{definition.SHORT_NAME}`. What it does and how it behaves is in
[tuning.md](tuning.md), whole ones in [load-test.yaml](../manifests/samples/load-test.yaml) and
[tuning.yaml](../manifests/samples/tuning.yaml). `model` and `runtime` are those of an LLMService, see
[Model](api.md#model) and [Runtime](api.md#runtime); how tables are read is said there too.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter.
"""


def benchmark_api_md() -> str:
    """Return the whole page."""
    status = (LLMBenchmarkStatus, BenchmarkConditionType, BenchmarkReason, BenchmarkPhase)
    return page(HEAD, crd.CRD.schema(), LLMBenchmarkSpec, *status)
