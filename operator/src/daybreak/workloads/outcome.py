"""What was decided of a workload, for its status."""

from dataclasses import dataclass

from daybreak.api.common.moments import Moments
from daybreak.problems.problem import Problem
from daybreak.workloads.gate_report import Gates
from daybreak.workloads.rolled import Rolled


@dataclass(frozen=True)
class Outcome:
    """What was decided."""

    blocked: Problem | None
    """What keeps its spec from being applied; None: nothing."""
    gates: Gates
    """The gates, with what was decided on their sleep."""
    moments: Moments
    """The present, and when time alone changes what is said."""
    rolled: Rolled | None = None
    """What becomes of a change of it; None: the kind keeps no revisions, or has none yet."""
