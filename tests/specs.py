"""Manifests of LLMServices with one model, for the specs that must be accepted and those that must not."""

from dataclasses import dataclass
from typing import Any

from daybreak.api.llmservice.resource import KIND
from daybreak.api.schema.resource import API_VERSION

Manifest = dict[str, Any]

CLAIM = {"templateName": "one-gpu", "devices": 1}


def manifest(name: str = "sample", model: Manifest | None = None, **spec: Any) -> Manifest:
    """Return a manifest with one model; arguments replace fields of the model and of the spec."""
    chat = {"name": "chat", "source": "hf://owner/model"} | (model or {})
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"models": [chat]} | spec,
    }


def with_model(**fields: Any) -> Manifest:
    """Return a manifest with a model that has these fields."""
    return manifest(model=fields)


def with_runtime(**fields: Any) -> Manifest:
    """Return a manifest with these fields in `spec.runtime`."""
    return manifest(runtime=fields)


@dataclass(frozen=True)
class Broken:
    """A manifest that must be refused."""

    id: str
    manifest: Manifest
    rule: str = ""
    """The message of the rule that it breaks; empty when it breaks a field's own bounds."""
    path: str = ""
    """The field that must be named."""
