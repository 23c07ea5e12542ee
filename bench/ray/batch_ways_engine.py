"""Engine stage of an LLMBatch for `bench.ray.batch_ways`: it records when it takes the first row."""

from typing import Any

from bench.ray.batch_ways import note_row
from daybreak_runtime.batch.stage_classes import JsonEngine


class Noting(JsonEngine):
    """Daybreak's engine stage, which records the first row."""

    async def _generate_with_error_handling(self, row: dict[str, Any], batch_uuid: Any) -> dict[str, Any]:
        note_row()
        return await super()._generate_with_error_handling(row, batch_uuid)
