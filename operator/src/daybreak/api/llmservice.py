"""The LLMService kind, and how a manifest becomes one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from daybreak.api.spec import LLMServiceSpec

GROUP = "daybreak.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "LLMService"
PLURAL = "llmservices"
SINGULAR = "llmservice"
SHORT_NAME = "llm"

NAME_LIMIT = 47
"""Longest name of a RayService (KubeRay refuses a longer one), and so of an LLMService."""


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
        try:
            spec = LLMServiceSpec.model_validate(manifest.get("spec") or {})
        except ValidationError as error:
            raise InvalidSpec(_readable(error)) from error
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", "default"),
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            spec=spec,
        )


def _readable(error: ValidationError) -> str:
    """Each wrong field with its path and what is wrong, without pydantic's own links and input dumps."""
    lines = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        path = "spec"
        for step in detail["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        lines.append(f"{path}: {detail['msg'].removeprefix('Value error, ')}")
    return "; ".join(lines)
