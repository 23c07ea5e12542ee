"""The problem of a workload of any kind that fits on no node."""

from daybreak.api.common.conditions import Reason
from daybreak.problems.problem import Problem
from daybreak.scheduling.schedulable import nodes_come


def no_node_fits(misfits: str, kind: str, *, waking: bool) -> Problem:
    """Return the problem of an object of a kind that fits on no node.

    A waking object had its nodes before it slept: its pods cause them to be added again.
    """
    if waking:
        return Problem(Reason.NO_NODE_FITS, f"{misfits}; its pods wait for such a node", stalled=False)
    return Problem(Reason.NO_NODE_FITS, f"{misfits}; {nodes_come(kind)}", stalled=True)
