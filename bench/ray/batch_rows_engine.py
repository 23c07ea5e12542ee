"""The stand-in engine inside Ray Data LLM, for bench.ray.batch_rows.

Everything around it is real: the blocks, the processes that prepare rows, Ray Data LLM's stage and ours on
top of it. Only what answers a row is replaced: a slot is held for a while, and the row's prompt is noted.
"""

import asyncio
import os
from typing import Any

from ray.llm._internal.batch.stages.base import StatefulStageUDF

from daybreak_runtime.batch.stage_classes import JsonEngine

SLOTS = 256
"""Rows at a time: an engine's own default."""
ROW_SECONDS = 0.5
"""How long each of them takes."""
NOTES = "BATCH_ROWS_NOTES"
"""Environment variable with the file in which each row is noted that was answered."""


class StandIn(JsonEngine):
    """Our engine stage with a stand-in for vLLM's engine."""

    def __init__(self, data_column: str, *_: Any, task: str, **__: Any) -> None:
        StatefulStageUDF.__init__(self, data_column, [])
        self._task = task
        self.engine_kwargs = {"disable_log_stats": True}
        self._slots = asyncio.Semaphore(SLOTS)
        self._notes = os.open(os.environ[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    async def _generate_with_error_handling(self, row: dict[str, Any], _: Any) -> dict[str, Any]:
        async with self._slots:
            await asyncio.sleep(ROW_SECONDS)
        os.write(self._notes, f"{row['prompt']}\n".encode())
        return {
            self.IDX_IN_BATCH_COLUMN: row[self.IDX_IN_BATCH_COLUMN],
            "generated_text": "A short answer.",
            "num_input_tokens": 8,
            "num_generated_tokens": 4,
            "__inference_error__": "",
        }
