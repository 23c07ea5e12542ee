"""Classes of Ray Data's actors, which run on the workers, where the weights are."""

import json
from collections.abc import AsyncIterator
from typing import Any

from ray.llm._internal.batch.processor.base import Processor
from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF

from daybreak_runtime.batch.engines import ERROR_LIMIT, in_json, prepare_rows
from daybreak_runtime.batch.order import Engines, Request
from daybreak_runtime.batch.rows.decoding import Room, decoded, explained, room_for_images
from daybreak_runtime.batch.rows.prepare import tokenizer
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.start.cause import raise_cause


class Prepare:
    """Actor that applies templates and tokenizes, row by row."""

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
    """Engine stage of Ray Data LLM, with text as input and output."""

    def __init__(self, *args: Any, adapters: dict[str, str], task: str, **kwargs: Any) -> None:
        self._task = task
        kwargs["expected_input_keys"] = []
        # vLLM's own exception points to the log; the batch reports the cause in it.
        with raise_cause():
            super().__init__(*args, **kwargs)
        from vllm.lora.request import LoRARequest
        from vllm.multimodal.media import ImageMediaIO

        for number, (name, path) in enumerate(adapters.items(), 1):
            self.llm.lora_name_to_request[name] = LoRARequest(name, number, path)
        self.llm.generate_async = explained(self.llm.generate_async)
        # An image is read as in `vllm serve`: upright, and on white if it is transparent.
        self._load = ImageMediaIO(
            **(self.engine_kwargs.get("media_io_kwargs") or {}).get("image", {})
        ).load_bytes
        self._room = Room(room_for_images())

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Answer a batch."""
        rows: list[dict[str, Any]] = []
        most: dict[int, int | None] = {}
        for row in batch:
            index = row[self.IDX_IN_BATCH_COLUMN]
            request = json.loads(row["request"])
            most[index] = request.get("sampling_params", {}).get("max_tokens")
            rows.append({**request, self.IDX_IN_BATCH_COLUMN: index})
        async for output in in_json(super().udf(rows), self.IDX_IN_BATCH_COLUMN, most, self._task):
            yield output

    async def _generate_with_error_handling(self, row: dict[str, Any], batch_uuid: Any) -> dict[str, Any]:
        """Answer a row, with its images decoded only while it is in the engine."""
        observed = row.pop("images", None)
        if not observed:
            return dict(await super()._generate_with_error_handling(row, batch_uuid))
        try:
            async with decoded(observed, self._load, self._room) as found:
                whole = {**row, "multimodal_data": {"image": found}}
                return dict(await super()._generate_with_error_handling(whole, batch_uuid))
        except RowError as error:
            message = str(error)[:ERROR_LIMIT]
            return {self.IDX_IN_BATCH_COLUMN: row[self.IDX_IN_BATCH_COLUMN], "__inference_error__": message}
