"""How long a change may take, from how long starts took."""

from collections.abc import Iterable
from datetime import timedelta

from daybreak.api.gates.gate_status import WakeStatus
from daybreak.api.schema.scalars import AUTO, seconds

BOUNDS = (timedelta(minutes=15), timedelta(hours=2))
"""Shortest and longest deadline by itself."""
UNKNOWN = timedelta(minutes=30)
"""The same while no start has been measured."""
TIMES = 3
"""A new image and new weights take longer than the starts that were measured."""


def deadline(asked: str, wakes: Iterable[WakeStatus | None]) -> timedelta:
    """How long a change may take: what the person says, or `Auto`, from the measured starts of models."""
    if asked != AUTO:
        return timedelta(seconds=seconds(asked))
    measured = [wake.p95_seconds for wake in wakes if wake is not None and wake.p95_seconds is not None]
    if not measured:
        return UNKNOWN
    shortest, longest = BOUNDS
    return min(max(timedelta(seconds=TIMES * max(measured)), shortest), longest)
