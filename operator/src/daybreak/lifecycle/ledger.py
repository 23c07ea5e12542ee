"""What wakes have taken: the steps of the last one, as they are done, and how long the recent ones took."""

import math
from collections.abc import Sequence
from datetime import datetime

from daybreak.api.spec import SleepDepth
from daybreak.api.status import GateState, Phase, WakePhases, WakeStatus
from daybreak.lifecycle.conditions import written
from daybreak.lifecycle.look import Look
from daybreak.lifecycle.machine import Course
from daybreak.lifecycle.models import ModelView
from daybreak.lifecycle.reading import parse_time
from daybreak.lifecycle.steps import steps

RECENT = 20
"""Wakes that are remembered."""


def ledger(
    before: WakeStatus | None, was: Course, now: Course, look: Look, models: Sequence[ModelView]
) -> WakeStatus | None:
    """The ledger after a decision: `was` is the course before it, `now` the one after."""
    if was.asleep is not None and now.asleep is None:
        return _begun(before, was.asleep, now.since)
    if before is None or before.seconds is not None:
        return before
    started = parse_time(before.started_at) or look.now
    opened = was.gate is not GateState.OPEN and now.gate is GateState.OPEN
    if not opened:
        if now.phase not in (Phase.WAKING, Phase.FAILED):
            return before
        return before.model_copy(update={"phases": steps(look, models, started, before.phases)})
    done = steps(look, models, started, before.phases) or WakePhases()
    taken = max(0, round((look.now - started).total_seconds()))
    # An engine that has answered runs, even if nobody has told of it yet.
    engine_started = taken if done.engine_started is None else done.engine_started
    recent = [*before.recent, taken][-RECENT:]
    return WakeStatus(
        depth=before.depth,
        started_at=before.started_at,
        phases=done.model_copy(update={"engine_started": engine_started, "first_token": taken}),
        seconds=taken,
        recent=recent,
        p50_seconds=percentile(recent, 50),
        p95_seconds=percentile(recent, 95),
    )


def percentile(values: Sequence[int], percent: int) -> int:
    """The smallest of the values that so many percent do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _begun(before: WakeStatus | None, depth: SleepDepth, at: datetime) -> WakeStatus:
    """A new wake; what is known of those before is kept."""
    return WakeStatus(
        depth=depth,
        started_at=written(at),
        recent=before.recent if before else [],
        p50_seconds=before.p50_seconds if before else None,
        p95_seconds=before.p95_seconds if before else None,
    )
