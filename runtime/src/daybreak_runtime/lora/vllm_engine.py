"""vLLM's side: adapters in its engine and in the list of models that its OpenAI server answers by.

Everything here is of vLLM 0.29's inside; nothing else of this package knows vLLM.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from daybreak_runtime.lora.check import Refused, Shapes

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""How often it is looked whether an adapter that is to go is still in use."""
_MARK = "#"
"""Parts an adapter's name from its number in the engine; it may not stand in the name of a model."""


class VllmEngine:
    """Adapters of one vLLM engine.

    A second adapter of a name gets a name of its own in the engine, since vLLM takes two of one name for the
    same: in one batch, and in its prefix cache, so that a conversation would go on with what the one before
    had computed. Clients see the name that they have asked for.

    Args:
        models: vLLM's OpenAIServingModels, which every part of its server shares.
        why_missing: HTTP status and words for who asks for an adapter that is not there now, though it is
            configured; None for a name that is none of them.
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
        """Highest rank that the engine has room for."""
        return int(self._client.vllm_config.lora_config.max_lora_rank)

    async def add(self, name: str, path: str) -> None:
        """Take the adapter in this directory, and list it as `name` in place of one that has that name."""
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
            # It may have been taken in part.
            await self._client.remove_lora(request.lora_int_id)
            raise Refused(f"the engine does not take it: {_plain(error)}") from error
        before = self._models.lora_requests.get(name)
        self._models.lora_requests[name] = request
        if before is not None:
            self._let_go(before)

    def remove(self, name: str) -> None:
        """List it no more; requests that use it go on, and its memory is given back when they are done."""
        before = self._models.lora_requests.pop(name, None)
        if before is not None:
            self._let_go(before)

    async def close(self) -> None:
        """Stop waiting for such requests."""
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _let_go(self, request: Any) -> None:
        task = asyncio.create_task(self._give_back(request), name=f"give back {request.lora_name}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _give_back(self, request: Any) -> None:
        # One that reaches the engine after this loads it again; vLLM then forgets it when it needs the room.
        await asyncio.sleep(LOOK_SECONDS)
        while self._in_use(request.lora_name):  # noqa: ASYNC110 -- vLLM tells nobody when a request ends
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
    """vLLM's adapters by the names that clients ask for.

    vLLM answers 404 to a name that is not in it, and knows no reason. Where there is one, it is said instead.
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
    """Linear layers of the base model, from its configuration; None where transformers has no such model.

    The model is built without weights, and has the names by which PEFT names the parts of an adapter.
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
    """What the worker has said, without what vLLM has put around it."""
    text = " ".join(str(error).split())
    found = re.search(r"Worker failed with error '(.*)', please check the stack trace", text)
    return (found[1] if found else text)[:600]
