"""Adapters in vLLM's engine and in the model list of its OpenAI server.

All code here depends on internals of vLLM 0.29; the rest of this package does not know vLLM.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from daybreak_runtime.lora.check import Refused, Shapes

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two checks whether a removed adapter is still in use."""
_MARK = "#"
"""Separator of an adapter's name and its number in the engine; model names must not contain it."""


class VllmEngine:
    """Adapters of one vLLM engine.

    A second adapter of a name gets a different name in the engine, because vLLM treats two of one name as the
    same: in one batch, and in its prefix cache. A conversation would otherwise continue with results of the
    previous adapter. Clients see the name that they requested.

    Args:
        models: vLLM's OpenAIServingModels, which every part of its server shares.
        why_missing: Function that returns HTTP status and message for a configured adapter that is currently
            unavailable, or None for other names.
    """

    def __init__(self, models: Any, why_missing: Callable[[str], tuple[int, str] | None]) -> None:
        self._models = models
        self._client = models.engine_client
        self._numbers: dict[str, int] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._show = models.show_available_models
        models.lora_requests = _Listed(why_missing)
        models.model_name = self._model_name
        models.show_available_models = self._show_available_models

    @property
    def max_rank(self) -> int:
        """Maximum rank that the engine supports."""
        return int(self._client.vllm_config.lora_config.max_lora_rank)

    async def add(self, name: str, path: str) -> None:
        """Load the adapter in this directory as `name`, replacing an existing adapter of that name."""
        from vllm.lora.request import LoRARequest

        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        request = LoRARequest(
            lora_name=name if number == 1 else f"{name}{_MARK}{number}",
            lora_int_id=self._models.lora_id_counter.inc(1),
            lora_path=path,
            base_model_name=self._models.base_model_paths[0].name,
        )
        try:
            await self._client.add_lora(request)
        except Exception as error:
            if self._client.errored:
                raise
            # The engine may have loaded it in part.
            await self._client.remove_lora(request.lora_int_id)
            raise Refused(f"the engine does not take it: {_plain(error)}") from error
        before = self._models.lora_requests.get(name)
        self._models.lora_requests[name] = request
        if before is not None:
            self._let_go(before)

    def remove(self, name: str) -> None:
        """Remove the adapter from the list; its requests continue, and its memory is released after them."""
        before = self._models.lora_requests.pop(name, None)
        if before is not None:
            self._let_go(before)

    async def close(self) -> None:
        """Stop waiting for requests that use removed adapters."""
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _let_go(self, request: Any) -> None:
        task = asyncio.create_task(self._give_back(request), name=f"release {request.lora_name}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _give_back(self, request: Any) -> None:
        # A request that reaches the engine after this loads it again; vLLM then evicts it when it needs the
        # memory.
        await asyncio.sleep(LOOK_SECONDS)
        while self._in_use(request.lora_name):  # noqa: ASYNC110 -- vLLM reports no end of a request
            await asyncio.sleep(LOOK_SECONDS)
        try:
            await self._client.remove_lora(request.lora_int_id)
        except Exception:
            log.warning("adapter %s stays in the engine", request.lora_name, exc_info=True)

    def _in_use(self, engine_name: str) -> bool:
        states = self._client.output_processor.request_states.values()
        return any(state.lora_name == engine_name for state in states)

    def _model_name(self, request: Any | None = None) -> str:
        if request is None:
            return str(self._models.base_model_paths[0].name)
        return str(request.lora_name).partition(_MARK)[0]

    async def _show_available_models(self) -> Any:
        listed = await self._show()
        for card in listed.data:
            card.id = card.id.partition(_MARK)[0]
        return listed


class _Listed(dict[str, Any]):
    """vLLM's adapters by the names that clients request.

    vLLM answers 404 to a missing name, without a reason. If there is a reason, it is sent instead.
    """

    def __init__(self, why_missing: Callable[[str], tuple[int, str] | None]) -> None:
        super().__init__()
        self._why_missing = why_missing

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        missing = self._why_missing(str(name))
        if missing is not None:
            from fastapi import HTTPException

            raise HTTPException(missing[0], missing[1])
        return False


def base_shapes(model_config: Any) -> Shapes | None:
    """Return the linear layers of the base model from its configuration, or None if transformers lacks it.

    The model is built without weights, and has the names that PEFT uses for the parts of an adapter.
    """
    try:
        import torch
        import transformers

        config = model_config.hf_config
        architecture = getattr(transformers, (config.architectures or [""])[0], None)
        if architecture is None or hasattr(config, "text_config"):
            # The parts of models for text and images have had several names in transformers' versions.
            return None
        with torch.device("meta"):
            model = architecture(config)
        return {
            name: (module.in_features, module.out_features)
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear)
        } or None
    except Exception:
        log.warning("the base model's layers are not known: adapters' sizes are not checked", exc_info=True)
        return None


def _plain(error: Exception) -> str:
    """Return the worker's own message, without vLLM's text around it."""
    text = " ".join(str(error).split())
    found = re.search(r"Worker failed with error '(.*)', please check the stack trace", text)
    return (found[1] if found else text)[:600]
