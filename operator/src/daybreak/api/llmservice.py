"""The LLMService kind, and how a manifest becomes one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from daybreak.api import names
from daybreak.api.spec import LLMServiceSpec

GROUP = "daybreak.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "LLMService"
PLURAL = "llmservices"
SINGULAR = "llmservice"
SHORT_NAME = "llm"
CATEGORY = "daybreak"

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


_MESSAGES = {"extra_forbidden": "there is no such field", "missing": "this field is needed"}


def readable(error: ValidationError, root: str = "spec") -> str:
    """Each wrong field with its path and what is wrong, without pydantic's own links and input dumps."""
    lines = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        path = root
        for step in detail["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        message = _MESSAGES.get(detail["type"], detail["msg"].removeprefix("Value error, "))
        lines.append(f"{path}: {message}")
    return "; ".join(lines)
