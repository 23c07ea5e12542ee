"""An operator that is killed around each of its writes: the next operator reaches the same result."""

import math
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.api.admin import eventually
from tests.api.operator_process import OperatorProcess

Start = Callable[..., OperatorProcess]
MOMENTS = ("before", "sent", "after")
"""When an operator dies: before a write leaves, once it has left, and once it is answered."""
MOST_WRITES = {"before": 1, "sent": 2, "after": 2}
"""How many of an operator's writes arrive that dies at its second one."""
POD = "operator"
"""One pod that restarts its container: the new operator need not wait for its own lease."""


def work_is_done_in_spite_of_deaths(moment: str, alone: Start, objects: int, done: Callable[[], Any]) -> None:
    """Kill each operator at its second write, until one survives with all work done; end that one too.

    Therefore every state between two writes is the start of one operator, and every write but the first the
    end of another.

    Args:
        moment: One of `MOMENTS`.
        alone: Makes an operator that is the only one.
        objects: How many objects it makes, besides the status.
        done: Whether all its work is done.
    """
    deaths = 0
    for _ in range(3 * objects):
        process = alone(POD, PLAYED_DEATH=f"2 {moment}")
        process.start()
        eventually("its end, or all its work done", partial(_ended_or, process, done))
        if process.running:
            break
        assert process.wait(0) == -signal.SIGKILL, process.log()[-2000:]
        deaths += 1
    else:
        raise AssertionError("never came to an end")
    process.kill()
    # The one that lives on may have written as often as each of those that died.
    assert deaths >= math.ceil((objects + 1) / MOST_WRITES[moment]) - 1, "too few for this to mean anything"


def killed_around_each_write(
    moment: str,
    alone: Start,
    objects: int,
    done: Callable[[], Any],
    reported: Callable[[], Any],
    kept: Callable[[], Any],
) -> None:
    """Kill operators, then start one more and check that it has nothing to do.

    It has `told` what it sees, and what is `kept` stays as it is.
    """
    work_is_done_in_spite_of_deaths(moment, alone, objects, done)
    before = kept()
    last = alone(POD)
    last.start()
    last.wait_ready()
    eventually("a reconcile", lambda: last.metric("daybreak_reconciles_total", outcome="done") >= 1)
    eventually("a status", reported)
    assert kept() == before


def _ended_or(process: OperatorProcess, done: Callable[[], Any]) -> bool:
    return not process.running or bool(done())
