"""Decision on a workload, for its status."""

from dataclasses import dataclass

from daybreak.api.common.moments import Moments
from daybreak.problems.problem import Problem
from daybreak.workloads.gate_report import Gates
from daybreak.workloads.rolled import Rolled


@dataclass(frozen=True)
class Outcome:
    """Decision on a workload, with the facts that its status shows."""

    blocked: Problem | None
    """The problem that prevents the operator from applying the spec, or None."""
    gates: Gates
    """The gates, with the decision on their sleep."""
    moments: Moments
    """The current time; collects the times at which time alone changes the status."""
    rolled: Rolled | None = None
    """State of the rollout, or None if the kind keeps no revisions or has none yet."""
