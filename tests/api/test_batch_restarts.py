"""An operator that is killed around each write of a batch: whoever comes next ends at the same place."""

import math
import signal
from collections.abc import Callable
from functools import partial

import pytest

from tests.api.admin import Admin, eventually
from tests.api.batches import OBJECTS, everything, night, status
from tests.api.operator_process import OperatorProcess

Start = Callable[..., OperatorProcess]
POD = "operator"
MOST_WRITES = {"before": 1, "sent": 2, "after": 2}
"""How many of an operator's writes arrive that dies at its second one."""


def _ended_or_done(process: OperatorProcess, admin: Admin) -> bool:
    return not process.running or bool(everything(admin) and status(admin).get("started"))


@pytest.mark.parametrize("moment", ["before", "sent", "after"])
def test_killed_around_each_write(moment: str, admin: Admin, alone: Start) -> None:
    """Each operator dies at its second write, so every state between two writes is somebody's start."""
    admin.create(night())
    deaths = 0
    for _ in range(3 * len(OBJECTS)):
        process = alone(POD, PLAYED_DEATH=f"2 {moment}")
        process.start()
        eventually("its end, or all its work done", partial(_ended_or_done, process, admin))
        if process.running:
            break
        assert process.wait(0) == -signal.SIGKILL, process.log()[-2000:]
        deaths += 1
    else:
        raise AssertionError("never came to an end")
    process.kill()
    assert deaths >= math.ceil((len(OBJECTS) + 1) / MOST_WRITES[moment]) - 1, "too few to mean anything"
    objects = everything(admin)
    # Another process finds nothing to do.
    last = alone(POD)
    last.start()
    last.wait_ready()
    eventually("a reconcile", lambda: last.metric("daybreak_reconciles_total", outcome="done") >= 1)
    eventually("a status", lambda: status(admin).get("job"))
    assert everything(admin) == objects
