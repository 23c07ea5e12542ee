"""What stands in the way of a service or of one of its models."""

from dataclasses import dataclass, replace

from daybreak.api.common.conditions import Reason

_COMES_BACK = (Reason.IMAGE_PULL_FAILED, Reason.CONTAINER_CRASHING, Reason.MODEL_FAILED)
"""Problems with a pause between attempts, in which they look as if they might pass."""


@dataclass(frozen=True)
class Problem:
    """One thing that stands in the way."""

    reason: Reason
    message: str
    """What is wrong, with the nearest fix where one is known."""
    stalled: bool
    """Whether somebody has to act. What may pass by itself (a pull that is tried again, a node that an
    autoscaler may add) only slows things down."""
    of_head: bool = False
    """Whether it is the head pod's."""


def lasting(problem: Problem | None, standing: str) -> Problem | None:
    """The same, and still for somebody to act on, if it had come to that before.

    `standing` is the reason for which the service was stalled so far. Every new attempt looks hopeful; only
    when none is needed any more is the problem over.
    """
    if problem is None or problem.stalled or problem.reason not in _COMES_BACK or problem.reason != standing:
        return problem
    return replace(problem, stalled=True)
