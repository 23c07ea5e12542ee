"""A problem that blocks a service or one of its models."""

from dataclasses import dataclass, replace

from daybreak.api.common.conditions import Reason

_COMES_BACK = (Reason.IMAGE_PULL_FAILED, Reason.CONTAINER_CRASHING, Reason.MODEL_FAILED)
"""Reasons with a pause between attempts, during which the problem seems to have passed."""


@dataclass(frozen=True)
class Problem:
    """One blocking problem."""

    reason: Reason
    message: str
    """The problem, with the nearest fix if one is known."""
    stalled: bool
    """True if a user or an administrator must act.

    Problems that may pass by themselves only delay, for example a repeated pull, or a node that an autoscaler
    may add.
    """
    of_head: bool = False
    """True if the problem concerns the head pod."""


def lasting(problem: Problem | None, standing: str) -> Problem | None:
    """Return the problem, stalled if it was stalled before for the same reason.

    `standing` is the reason for which the service was stalled before. Each new attempt seems to succeed at
    first; the problem is over only when no attempt is needed.
    """
    if problem is None or problem.stalled or problem.reason not in _COMES_BACK or problem.reason != standing:
        return problem
    return replace(problem, stalled=True)
