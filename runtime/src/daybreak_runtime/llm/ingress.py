"""Ingress class of Ray Serve LLM that also finds models with a colon in the name.

Ray reads a name up to its first colon, and takes the rest for a LoRA adapter of the model before it.
"""

from typing import Any

from ray.llm._internal.serve.core.ingress.ingress import OpenAiIngress as RayOpenAiIngress


class OpenAiIngress(RayOpenAiIngress):  # type: ignore[misc]  # Ray is only in the Ray images
    """Deployment on the head that serves OpenAI's API.

    Serve finds deployments by the name of this class, so it equals that of Ray's own.
    """

    async def _get_model_id(self, model: str | None) -> Any:
        """Return the name of a known model unchanged."""
        return model if model in self._model_cards else await super()._get_model_id(model)

    def _get_configured_serve_handle(self, model_id: str) -> Any:
        """Return the handle of a known model. A known name has no adapter in it."""
        handles = self._configured_serve_handles
        if model_id not in handles and model_id in self._default_serve_handles:
            handles[model_id] = self._default_serve_handles[model_id].options(stream=True)
        return super()._get_configured_serve_handle(model_id)
