"""LLMBenchmark kind, and its construction from a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.common import names
from daybreak.api.llmbenchmark.spec import LLMBenchmarkSpec
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import at_most, dns_label
from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "LLMBenchmark"
PLURAL = "llmbenchmarks"
SHORT_NAME = "llmbench"
LLM_BENCHMARKS = Resource(GROUP, VERSION, KIND, PLURAL)

NAME_LIMIT = 40
"""Maximum length of the name of an LLMBenchmark. Labels of 63 characters and other names contain it, see
`names`."""
NAME_RULES = (at_most(NAME_LIMIT, "other names are made of it"), dns_label())


@dataclass(frozen=True)
class LLMBenchmark:
    """LLMBenchmark as the operator uses it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMBenchmarkSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Parse a manifest from the API server. Raises InvalidSpec."""
        return cls(
            **identity(manifest),
            spec=read_spec(manifest, NAME_RULES, LLMBenchmarkSpec),
        )

    @property
    def owner(self) -> str:
        """Return the value that identifies the benchmark in labels and in names of its objects."""
        return names.of_owner(KIND, self.name)
