"""Services to build, written as a person would."""

from typing import Any

from daybreak.api.llmservice.definition import LLMService
from daybreak.platform import Platform

PLATFORM = Platform(
    ray_image="registry.example.com/daybreak-ray:1",
    ray_cpu_image="registry.example.com/daybreak-ray-cpu:1",
    ray_head_image="registry.example.com/daybreak-ray-head:1",
)


def model(**fields: Any) -> dict[str, Any]:
    """A model of the spec; what is not given is a small one from the hub, named `m`."""
    return {"name": "m", "source": "hf://owner/m", **fields}


def service(*models: dict[str, Any], name: str = "llama", **spec: Any) -> LLMService:
    """A service of these models; without any, of one that sets nothing."""
    return LLMService.from_manifest(
        {
            "metadata": {"name": name, "namespace": "team", "uid": "a-uid", "generation": 3},
            "spec": {"models": list(models) or [model()], **spec},
        }
    )
