"""What stands in the way of a service or of one of its models."""

from dataclasses import dataclass

from daybreak.api.status import Reason


@dataclass(frozen=True)
class Trouble:
    """One thing that stands in the way."""

    reason: Reason
    message: str
    """What is wrong, with the nearest fix where one is known."""
    stalled: bool
    """Whether somebody has to act. What may pass by itself (a pull that is tried again, a node that an
    autoscaler may add) only slows things down."""
