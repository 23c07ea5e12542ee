"""What was decided of a workload with one gate, for its status."""

from dataclasses import dataclass
from datetime import timedelta

from daybreak.gates.state_machine import SleepState
from daybreak.problems.problem import Problem
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


@dataclass(frozen=True)
class Outcome:
    """What was decided."""

    blocked: Problem | None
    """What keeps its spec from being applied; None: nothing."""
    sleep: SleepState | None
    """Its sleep and wake from here on; None without a gateway."""
    rolled: Rolled | None = None
    """What becomes of a change of it; None: the kind keeps no revisions, or has none yet."""
