"""What a workload that fits on no node is told, of any kind."""

from daybreak.api.common.conditions import Reason
from daybreak.problems.problem import Problem
from daybreak.scheduling.schedulable import nodes_come


def no_node_fits(misfits: str, kind: str, *, waking: bool) -> Problem:
    """What stands in the way of an object of a kind. What wakes had its nodes before it slept: its pods bring
    them back."""
    if waking:
        return Problem(Reason.NO_NODE_FITS, f"{misfits}; its pods wait for such a node", stalled=False)
    return Problem(Reason.NO_NODE_FITS, f"{misfits}; {nodes_come(kind)}", stalled=True)
