"""What becomes of a change of a workload."""

from dataclasses import dataclass
from datetime import timedelta

from daybreak.rollouts.history import History
from daybreak.rollouts.machine import RolloutState


@dataclass(frozen=True)
class Rolled:
    """What becomes of a change of it."""

    history: History
    state: RolloutState
    limit: timedelta
    """How long the change may take."""
    look_again: timedelta | None = None
    """When time alone may change it; None: never."""
