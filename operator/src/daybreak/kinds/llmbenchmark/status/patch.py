"""Status of the settings that are written into the LLMService."""

from collections.abc import Sequence
from datetime import datetime

from daybreak.api.common.condition_list import Made, dated
from daybreak.api.llmbenchmark.status import (
    BenchmarkConditionType,
    LLMBenchmarkStatus,
    PatchState,
    PatchStatus,
)
from daybreak.problems.events import Event

ACTION = "Apply"
"""Action of every event of the patch."""
_WARNINGS = (
    PatchState.ROLLED_BACK,
    PatchState.ROLLOUT_FAILED,
    PatchState.OVERWRITTEN,
    PatchState.PATCH_REJECTED,
)


def report(
    before: LLMBenchmarkStatus, patch: PatchStatus, now: datetime, generation: int
) -> LLMBenchmarkStatus:
    """Return the status with the patch, and with its condition in addition to the others."""
    kept = [each for each in before.conditions if each.type != BenchmarkConditionType.APPLIED]
    made = Made(
        BenchmarkConditionType.APPLIED,
        patch.state is PatchState.ROLLED_OUT,
        patch.state,
        patch.message or "",
    )
    plain = before.model_dump(mode="json", by_alias=True)
    return before.model_copy(
        update={"patch": patch, "conditions": [*kept, *dated(plain, [made], now, generation)]}
    )


def events(before: LLMBenchmarkStatus, patch: PatchStatus) -> Sequence[Event]:
    """Return an event if the patch has changed its state."""
    if before.patch is not None and before.patch.state is patch.state:
        return []
    return [Event(ACTION, patch.state in _WARNINGS, patch.state, patch.message or "")]
