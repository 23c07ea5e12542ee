"""The pauses between a model's requests: how often each length has been, which fades, and what it would have
cost to sleep in them after a given time."""

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
"""How much longer the pauses of a class are than those of the one before."""
CLASSES = tuple(round(SHORTEST_PAUSE.total_seconds() * RATIO**number) for number in range(PAUSE_CLASSES))
"""Where they begin, in seconds."""
_MIDDLES = tuple(each * RATIO**0.5 for each in CLASSES)
MEMORY = 64
"""About so many pauses are remembered: each takes this part of the weight of those before it."""
_SLACK = timedelta(seconds=5)
"""How far two looks at the same moment may lie apart."""
_DIGITS = 3


def remembered(
    before: IdleStatus, was: SleepState, now: SleepState, traffic: Traffic, moment: datetime
) -> IdleStatus:
    """The pauses after a decision taken at `moment`: `was` is the state before it, `now` the one after.

    A pause in which the model is awake is what gateways have told of its end. Of one in which it sleeps the
    beginning is kept, so that nothing of it is lost with a gateway or an operator. Nothing changes as long
    as a pause goes on, nor with pauses shorter than a minute.
    """
    if now.gate is GateState.FAILED:
        # Requests are refused: nothing begins or ends with them.
        return before.model_copy(update={"start_time": None})
    if not traffic.known:
        return before
    busy = bool(traffic.held or traffic.in_flight)
    last = moment if busy else None if traffic.asked is None else moment - traffic.asked
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
    """How many pauses are remembered."""
    return sum(pauses)


def expected_cost(pauses: Sequence[float], after_idle: float, wake: float) -> float:
    """What the remembered pauses cost, in seconds of the model's accelerators, if it sleeps after so many
    seconds and a wake costs so much. One more pause is assumed that does not end: what has been is no
    promise, and the longer it is waited the dearer that one is."""
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
