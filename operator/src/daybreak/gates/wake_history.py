"""Wake history: the completed steps of the last wake, and the durations of recent wakes."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase, WakePhases, WakeStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_state import SleepState

Steps = Callable[[datetime, WakePhases | None], WakePhases | None]
"""Function that returns the completed steps of a wake, or None without any.

Its arguments are the start of the wake and the steps that were completed before.
"""

RECENT = 20
"""Number of remembered wakes."""


def wake_history(
    before: WakeStatus | None, was: SleepState, now: SleepState, moment: datetime, steps: Steps
) -> WakeStatus | None:
    """Return the history after a decision taken at `moment`; `was` and `now` are the states around it."""
    if was.asleep is not None and now.asleep is None:
        return _begun(before, was.asleep, now.since)
    if before is None or not before.under_way:
        return before
    started = parse_time(before.start_time) or moment
    opened = was.gate is not GateState.OPEN and now.gate is GateState.OPEN
    failed = before.failed or _failed(was) or _failed(now) or None
    if not opened:
        if now.phase not in (Phase.WAKING, Phase.FAILED):
            return before
        found = steps(started, before.phases)
        return before.model_copy(update={"phases": found, "failed": failed})
    done = steps(started, before.phases) or WakePhases()
    taken = max(0, round((moment - started).total_seconds()))
    # An engine that has answered runs, even without a report of its start.
    engine_started = taken if done.engine_started is None else done.engine_started
    phases = done.model_copy(update={"engine_started": engine_started, "first_token": taken})
    ended = before.model_copy(update={"phases": phases, "seconds": taken, "failed": failed})
    if failed:
        # A failed wake is mostly the time until an administrator acted. Requests must not be held for that
        # long.
        return ended
    recent = [*before.recent, taken][-RECENT:]
    measured = {"p50_seconds": percentile(recent, 50), "p95_seconds": percentile(recent, 95)}
    return ended.model_copy(update={"recent": recent, **measured})


def percentile(values: Sequence[int], percent: int) -> int:
    """Return the smallest value that at least `percent` percent of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _failed(sleep_state: SleepState) -> bool:
    """Return True if a wake has stopped until an administrator acts."""
    halted = sleep_state.phase is Phase.FAILED and sleep_state.gate is GateState.CLOSED
    return halted or sleep_state.gate is GateState.FAILED


def _begun(before: WakeStatus | None, depth: SleepDepth, at: datetime) -> WakeStatus:
    """Return the status of a new wake, with the known durations of the previous ones."""
    return WakeStatus(
        depth=depth,
        start_time=written(at),
        recent=before.recent if before else [],
        p50_seconds=before.p50_seconds if before else None,
        p95_seconds=before.p95_seconds if before else None,
    )
