"""Simulated engine inside Ray Data LLM, for `bench.ray.batch_rows`.

Everything around it is real: the blocks, the processes that prepare rows, Ray Data LLM's stage, and
Daybreak's stage on top of it. Only the answer to a row is simulated: the engine holds a slot for a while and
records the row's prompt.
"""

import asyncio
import os
from typing import Any

from ray.llm._internal.batch.stages.base import StatefulStageUDF

from daybreak_runtime.batch.stage_classes import JsonEngine

SLOTS = 256
"""Number of rows at a time: the default of an engine."""
ROW_SECONDS = 0.5
"""Seconds for which each row holds its slot."""
NOTES = "BATCH_ROWS_NOTES"
"""Environment variable with the file that records each answered row."""


class StandIn(JsonEngine):
    """Daybreak's engine stage with a simulated engine instead of vLLM's."""

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
