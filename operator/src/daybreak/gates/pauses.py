"""The pauses between a model's requests: a fading histogram, and the cost of an idle time over it."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.idle_status import PAUSE_CLASSES, IdleStatus
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import SHORTEST_PAUSE, Traffic

RATIO = 2**0.5
"""Ratio between the lengths of neighboring classes of pauses."""
CLASSES = tuple(round(SHORTEST_PAUSE.total_seconds() * RATIO**number) for number in range(PAUSE_CLASSES))
"""Minimum length of each class of pauses, in seconds."""
_MIDDLES = tuple(each * RATIO**0.5 for each in CLASSES)
MEMORY = 64
"""Approximate number of remembered pauses. A new pause reduces the weight of the others by 1/64."""
_SLACK = timedelta(seconds=5)
"""Maximum difference between two observations of the same time."""
_DIGITS = 3


def remembered(
    before: IdleStatus, was: SleepState, now: SleepState, traffic: Traffic, moment: datetime
) -> IdleStatus:
    """Return the pauses after a decision taken at `moment`; `was` and `now` are the states around it.

    If the model is awake, gateways report a pause when it ends. If the model sleeps, the start of the pause
    is kept, so that no part is lost with a gateway or an operator. Nothing changes during a pause, nor after
    pauses shorter than a minute.
    """
    if now.gate is GateState.FAILED:
        # Rejected requests neither start nor end a pause.
        return before.model_copy(update={"start_time": None})
    if not traffic.known:
        return before
    busy = bool(traffic.held or traffic.in_flight)
    last = moment if busy else None if traffic.requested is None else moment - traffic.requested
    began, counted = parse_time(before.start_time or ""), parse_time(before.last_end_time or "")
    if began is not None:
        if last is None or last - began <= _SLACK:
            return before
        ended = before.model_copy(update={"start_time": None})
        return _with(ended, last - began, last)
    if traffic.pause is not None:
        end = moment - traffic.pause.ended
        if counted is None or end - counted > SHORTEST_PAUSE / 2:
            before = _with(before, traffic.pause.length, end)
    begins = _down(now) and not _down(was)
    if begins and last is not None and not busy:
        return before.model_copy(update={"start_time": written(last)})
    return before


def weight(pauses: Sequence[float]) -> float:
    """Return the weighted number of remembered pauses."""
    return sum(pauses)


def expected_cost(pauses: Sequence[float], after_idle: float, wake: float) -> float:
    """Return the cost of the remembered pauses, in seconds of the model's accelerators.

    The model sleeps after `after_idle` seconds, and a wake costs `wake` seconds. One additional endless pause
    is assumed, because past pauses guarantee nothing. The cost of that pause grows with the idle time.
    """
    cost = after_idle + wake
    for number, each in enumerate(pauses):
        length = _MIDDLES[number]
        cost += each * (length if length <= after_idle else after_idle + wake)
    return cost


def _with(before: IdleStatus, length: timedelta, end: datetime) -> IdleStatus:
    if length < SHORTEST_PAUSE:
        return before
    number = bisect_right(CLASSES, length.total_seconds()) - 1
    kept = [*before.pauses, *(0.0 for _ in range(number + 1 - len(before.pauses)))]
    faded = [each * (1 - 1 / MEMORY) for each in kept]
    faded[number] += 1
    pauses = [round(each, _DIGITS) for each in faded]
    return before.model_copy(update={"pauses": pauses, "last_end_time": written(end)})


def _down(state: SleepState) -> bool:
    return state.asleep is not None or state.phase is Phase.DRAINING
