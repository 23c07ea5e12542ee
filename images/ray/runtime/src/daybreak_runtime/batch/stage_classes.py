"""Classes that Ray Data makes actors of. They live on the workers, where the weights are."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from ray.llm._internal.batch.processor.base import Processor
from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF

from daybreak_runtime.batch import images
from daybreak_runtime.batch.engines import ERROR_LIMIT, in_json, prepare_rows
from daybreak_runtime.batch.order import Engines, Request
from daybreak_runtime.batch.prepare import tokenizer


class Prepare:
    """Templates and tokenizes, row by row."""

    def __init__(self, engines: Engines, request: Request) -> None:
        self._request = request
        self._adapters = set(engines.adapters)
        self._tokenizer = tokenizer(engines, request)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Prepare the rows of a block."""
        rows = zip(batch["row"].tolist(), batch["columns"].tolist(), strict=True)
        found = prepare_rows(self._request, self._tokenizer, rows, self._adapters)
        return {Processor.DATA_COLUMN: found}


class JsonEngine(vLLMEngineStageUDF):  # type: ignore[misc]  # Ray is in the images only
    """Ray Data LLM's engine stage, with texts before and behind it."""

    def __init__(self, *args: Any, adapters: dict[str, str], task: str, **kwargs: Any) -> None:
        self._task = task
        kwargs["expected_input_keys"] = []
        super().__init__(*args, **kwargs)
        from vllm.lora.request import LoRARequest

        for number, (name, path) in enumerate(adapters.items(), 1):
            self.llm.lora_name_to_request[name] = LoRARequest(name, number, path)

    async def _request(self, written: str) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(written)
        if seen := request.pop("images", None):
            # In threads: the engine's answers are taken in this one, and a photo takes a tenth of a second.
            decoded = await asyncio.gather(*(asyncio.to_thread(_image, each) for each in seen))
            request["multimodal_data"] = {"image": decoded}
        return request

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Answer a batch."""
        rows: list[dict[str, Any]] = []
        most: dict[int, int | None] = {}
        for row in batch:
            index = row[self.IDX_IN_BATCH_COLUMN]
            try:
                request = await self._request(row["request"])
                most[index] = request.get("sampling_params", {}).get("max_tokens")
                rows.append({**request, self.IDX_IN_BATCH_COLUMN: index})
            except Exception as error:  # noqa: BLE001 -- an image that is none is its row's error
                said = f"{type(error).__name__}: {error}"[:ERROR_LIMIT]
                found = {"request": "", "answer": "", "__inference_error__": said}
                yield {self.IDX_IN_BATCH_COLUMN: index, **found}
        async for output in in_json(super().udf(rows), self.IDX_IN_BATCH_COLUMN, most, self._task):
            yield output


def _image(url: str) -> Any:
    """The image of a `data:` URL."""
    import io

    from PIL import Image

    return Image.open(io.BytesIO(images.content(url))).convert("RGB")
