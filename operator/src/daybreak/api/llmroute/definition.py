"""The LLMRoute kind, and how a manifest becomes one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.schema.custom_object import identity, read_spec
from daybreak.api.schema.custom_resource import at_most, dns_label

NAME_LIMIT = 63
"""Longest name of an LLMRoute."""
NAME_RULES = (at_most(NAME_LIMIT, "as a DNS label has"), dns_label())


@dataclass(frozen=True)
class LLMRoute:
    """An LLMRoute as the operator works with it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMRouteSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest as the API server gives it. Raises InvalidSpec."""
        return cls(
            **identity(manifest),
            spec=read_spec(manifest, NAME_RULES, LLMRouteSpec),
        )
