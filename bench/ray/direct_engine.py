"""Simulated engine inside Ray Serve LLM, for `bench.ray.direct`: `RAYLLM_VLLM_ENGINE_CLS` names it to Ray.

Everything around it is real: Ray Serve LLM's server and engine class, and vLLM's own app with its routes and
middleware. Only the start of the engine and the answer to a chat completion are replaced.
"""

import argparse
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine
from starlette.datastructures import State

from bench.ray.direct_pace import Paced, answer


class _Chat:
    """Replacement of vLLM's OpenAIServingChat."""

    def __init__(self, paced: Paced) -> None:
        self._paced = paced

    async def create_chat_completion(
        self, request: Any, raw_request: Any = None
    ) -> AsyncGenerator[str, None]:
        """Answer a request for a stream; the benchmark sends no others."""
        return answer(self._paced, request.model, request.max_tokens or 16, len(request.messages))


class _Client:
    """Replacement of vLLM's AsyncLLM."""

    errored = False

    def __init__(self, paced: Paced, vllm_config: Any) -> None:
        self._paced = paced
        self.vllm_config = vllm_config
        self.model_config = vllm_config.model_config

    async def get_supported_tasks(self) -> tuple[str, ...]:
        """Report that the engine supports generation."""
        return ("generate",)

    async def check_health(self) -> None:
        """Report that the engine is healthy."""

    def get_num_unfinished_requests(self) -> int:
        """Return the number of unfinished streams."""
        return self._paced.unfinished

    def shutdown(self) -> None:
        """Do nothing, because no engine runs."""


class StandIn(VLLMEngine):  # type: ignore[misc]  # Ray is only in the Ray images
    """Ray Serve LLM's engine class with a simulated engine instead of vLLM's."""

    async def start(self) -> None:
        """Set the engine's state as if vLLM had started."""
        callback = self.llm_config.get_or_create_callback()
        arguments, frontend, config = self._prepare_engine_config(callback.ctx)
        paced = Paced()
        self._engine_client = _Client(paced, config)
        self._vllm_args = argparse.Namespace(**(vars(frontend) | vars(arguments)))
        self._oai_serving_chat = _Chat(paced)
        self._app_state = State(
            {
                "args": self._vllm_args,
                "engine_client": self._engine_client,
                "enable_server_load_tracking": False,
                "log_stats": False,
                "openai_serving_chat": self._oai_serving_chat,
            }
        )
        self._running = True
