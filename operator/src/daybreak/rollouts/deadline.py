"""Deadline of a rollout, from the duration of previous starts."""

from collections.abc import Iterable
from datetime import timedelta

from daybreak.api.gates.gate_status import WakeStatus
from daybreak.api.schema.scalars import AUTO, seconds

BOUNDS = (timedelta(minutes=15), timedelta(hours=2))
"""Minimum and maximum automatic deadline."""
UNKNOWN = timedelta(minutes=30)
"""Automatic deadline until a start has been measured."""
TIMES = 3
"""Factor over the measured starts: a new image and new weights take longer."""


def deadline(requested: str, wakes: Iterable[WakeStatus | None]) -> timedelta:
    """Return the deadline of a rollout: from the spec, or with `Auto` from measured starts of models."""
    if requested != AUTO:
        return timedelta(seconds=seconds(requested))
    measured = [wake.p95_seconds for wake in wakes if wake is not None and wake.p95_seconds is not None]
    if not measured:
        return UNKNOWN
    shortest, longest = BOUNDS
    return min(max(timedelta(seconds=TIMES * max(measured)), shortest), longest)
