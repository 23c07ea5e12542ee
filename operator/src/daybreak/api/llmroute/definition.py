"""LLMRoute kind, and its construction from a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import at_most, dns_label

NAME_LIMIT = 63
"""Maximum length of the name of an LLMRoute."""
NAME_RULES = (at_most(NAME_LIMIT, "as a DNS label has"), dns_label())


@dataclass(frozen=True)
class LLMRoute:
    """LLMRoute as the operator uses it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMRouteSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Parse a manifest from the API server. Raises InvalidSpec."""
        return cls(
            **identity(manifest),
            spec=read_spec(manifest, NAME_RULES, LLMRouteSpec),
        )
