"""Names, labels and owner of the objects of a benchmark."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.resource import API_VERSION
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark

COMPONENT = "benchmark"


def metadata(benchmark: LLMBenchmark, name: str) -> dict[str, Any]:
    """Metadata of an object that belongs to the benchmark and goes with it."""
    return {
        "name": name,
        "namespace": benchmark.namespace,
        "labels": names.labels(names.of_benchmark(benchmark.name), COMPONENT),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": benchmark.name,
                "uid": benchmark.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
