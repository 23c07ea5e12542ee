"""Services in the form that a user writes."""

from typing import Any

from daybreak.api.llmservice.definition import LLMService
from daybreak.platform import Platform

PLATFORM = Platform(
    ray_image="registry.example.com/daybreak-ray:1",
    ray_cpu_image="registry.example.com/daybreak-ray-cpu:1",
    ray_head_image="registry.example.com/daybreak-ray-head:1",
)


def model(**fields: Any) -> dict[str, Any]:
    """Return a model of the spec: by default a small model `m` from the hub."""
    return {"name": "m", "source": "hf://owner/m", **fields}


def service(*models: dict[str, Any], name: str = "llama", **spec: Any) -> LLMService:
    """Return a service with these models, or with one default model."""
    return LLMService.from_manifest(
        {
            "metadata": {"name": name, "namespace": "team", "uid": "a-uid", "generation": 3},
            "spec": {"models": list(models) or [model()], **spec},
        }
    )
