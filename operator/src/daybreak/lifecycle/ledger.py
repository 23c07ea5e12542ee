"""What wakes have taken: the phases of the last one, and how long the recent ones took as a whole.

Each time is read off what is there (a pod says itself when it was scheduled and when it became ready), so
nothing needs to be noted on the way, and a new operator writes the same.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from daybreak.api.spec import SleepDepth
from daybreak.api.status import GateState, WakePhases, WakeStatus
from daybreak.lifecycle.conditions import written
from daybreak.lifecycle.look import Look
from daybreak.lifecycle.machine import Course
from daybreak.lifecycle.podview import HEAD, PodView
from daybreak.lifecycle.reading import condition, parse_time, text

RECENT = 20
"""Wakes that are remembered."""


def ledger(before: WakeStatus | None, was: Course, now: Course, look: Look) -> WakeStatus | None:
    """The ledger after a decision: `was` is the course before it, `now` the one after."""
    if was.asleep is not None and now.asleep is None:
        return _begun(before, was.asleep, now.since)
    opened = was.gate is not GateState.OPEN and now.gate is GateState.OPEN
    if before is None or before.seconds is not None or not opened:
        return before
    started = parse_time(before.started_at) or look.now
    taken = max(0, round((look.now - started).total_seconds()))
    recent = [*before.recent, taken][-RECENT:]
    return WakeStatus(
        depth=before.depth,
        started_at=before.started_at,
        phases=_phases(look, started, taken),
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


def _phases(look: Look, started: datetime, taken: int) -> WakePhases:
    heads = [pod for pod in look.pods if pod.role == HEAD and pod.cluster == look.ray.active and pod.counts]
    workers = [pod for pod in look.pods if pod.role != HEAD and pod.cluster == look.ray.active and pod.counts]

    def after(moments: Iterable[datetime | None]) -> int | None:
        """Seconds from the start to the last of the moments; what was there before the start took none."""
        known = [moment for moment in moments if moment is not None]
        if not known:
            return None
        return max(0, round(max(moment - started for moment in known) / timedelta(seconds=1)))

    return WakePhases(
        objects=after(_created(pod) for pod in heads),
        head_ready=after(_since(pod, "Ready") for pod in heads),
        worker_scheduled=after(_since(pod, "PodScheduled") for pod in workers),
        worker_ready=after(_since(pod, "Ready") for pod in workers),
        first_token=taken,
    )


def _created(pod: PodView) -> datetime | None:
    metadata = pod.manifest.get("metadata")
    return parse_time(text(metadata.get("creationTimestamp"))) if metadata else None


def _since(pod: PodView, kind: str) -> datetime | None:
    found = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None
