"""The LLMService kind, and how a manifest becomes one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.base import readable
from daybreak.api.common.resource import GROUP, VERSION, Resource
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.ray.workload import RayWorkload

KIND = "LLMService"
PLURAL = "llmservices"
SINGULAR = "llmservice"
SHORT_NAME = "llm"
CATEGORY = "daybreak"
LLM_SERVICES = Resource(GROUP, VERSION, KIND, PLURAL)

NAME_LIMIT = 47
"""Longest name of a RayService (KubeRay refuses a longer one), and so of an LLMService."""
NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A DNS label that begins with a letter, as the name of a Service must."""


@dataclass(frozen=True)
class NameRule:
    """A rule on `metadata.name`, kept by the API server (CEL) and by the operator (Python)."""

    cel: str
    message: str
    holds: Callable[[str], bool]


NAME_RULES = (
    NameRule(
        f"self.metadata.name.size() <= {NAME_LIMIT}",
        f"metadata.name may have at most {NAME_LIMIT} characters, KubeRay's limit for a RayService",
        lambda name: len(name) <= NAME_LIMIT,
    ),
    NameRule(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with '-', "
        "since a Service of that name is made",
        lambda name: re.fullmatch(NAME_PATTERN, name) is not None,
    ),
    NameRule(
        f"self.metadata.name != '{names.ROUTER}'",
        f"metadata.name must not be {names.ROUTER}: the address of all models of a namespace has that name",
        lambda name: name != names.ROUTER,
    ),
)


class InvalidSpec(ValueError):
    """A spec that cannot be built; the message names each field and what it should be."""


@dataclass(frozen=True)
class LLMService:
    """An LLMService as the operator works with it: identity and spec, without status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMServiceSpec

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read a manifest as the API server gives it.

        Raises InvalidSpec when the spec does not have the form of the API. Rules across fields are
        `validation.problems`.
        """
        metadata = manifest["metadata"]
        broken = [rule.message for rule in NAME_RULES if not rule.holds(metadata["name"])]
        if broken:
            raise InvalidSpec("; ".join(broken))
        try:
            spec = LLMServiceSpec.model_validate(manifest.get("spec") or {})
        except ValidationError as error:
            raise InvalidSpec(readable(error)) from error
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", "default"),
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            spec=spec,
        )

    @property
    def workload(self) -> RayWorkload:
        """What Ray is to run."""
        return RayWorkload(self.name, self.spec.models, self.spec.runtime, self.spec.replicas)
