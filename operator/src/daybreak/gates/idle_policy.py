"""Recommended idle time of a model, computed from the pauses between its requests and its own wakes.

In a pause of length g, a model with idle time t holds its accelerators for g if g is shorter than t.
Otherwise it holds them for t, and a wake follows. The recommended t minimizes the cost of the remembered
pauses (decision 41). A wake costs its duration twice. The first part is the accelerators, which serve no
requests during the wake. The second part is the time of the waiting client, multiplied by
`sleep.auto.waitCost`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.api.gates.gate_status import ModelGate, WakeStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.sleep import AutoIdle, Sleep
from daybreak.api.schema.scalars import AUTO, duration_of, seconds
from daybreak.gates.pauses import CLASSES, expected_cost, remembered, weight
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import Traffic

DEFAULT_SECONDS = 900
"""Default of `sleep.afterIdle`, in seconds. Also applies to `Auto` until enough is known."""
ENOUGH = 8.0
"""Minimum number of known pauses for a recommendation."""
GAIN = 0.05
"""Minimum saving of another idle time, as a share of the cost of the current one."""


@dataclass(frozen=True)
class ModelTraffic:
    """Observation of a model at one time."""

    traffic: Traffic
    wake: WakeStatus | None
    """Wake history, including this observation."""
    moment: datetime


def idle_status(
    gate: ModelGate | None, sleep: Sleep | None, was: SleepState, now: SleepState, observed: ModelTraffic
) -> IdleStatus | None:
    """Return the idle status after a decision, or None.

    `was` is the state before the decision, `now` the state after it. The result is None for a model that
    never sleeps by itself, and until anything is known.
    """
    if sleep is None:
        return None
    before = gate.idle if gate is not None and gate.idle is not None else IdleStatus()
    known = remembered(before, was, now, observed.traffic, observed.moment)
    found = _judged(known, sleep.auto, observed.wake)
    if sleep.after_idle == AUTO:
        found = found.model_copy(update={"after_idle": duration_of(_present(found, sleep.auto))})
    else:
        why = found.reason if found.pauses else None
        found = found.model_copy(update={"after_idle": None, "reason": why})
    return found if found != IdleStatus() else None


def in_force(sleep: Sleep, gate: ModelGate | None) -> Sleep:
    """Return the sleep settings with the current idle time for `Auto`, which is the one in the status."""
    if sleep.after_idle != AUTO:
        return sleep
    idle = gate.idle if gate is not None else None
    message = idle.after_idle if idle is not None else None
    chosen = _within(seconds(message) if message is not None else DEFAULT_SECONDS, sleep.auto)
    return sleep.model_copy(update={"after_idle": duration_of(chosen)})


def look_again(before: ModelGate | None, after: ModelGate) -> timedelta | None:
    """Return zero if the idle time has changed, or None.

    The decision used the previous idle time, so it must be repeated at once.
    """
    was = before.idle.after_idle if before is not None and before.idle is not None else None
    now = after.idle.after_idle if after.idle is not None else None
    return timedelta(0) if now is not None and now != was else None


def recommended(pauses: Sequence[float], wake_seconds: float, auto: AutoIdle, present: float) -> float:
    """Return the idle time with the lowest cost, in seconds, or `present` if the saving is too small."""
    wake, shortest, longest = wake_cost(wake_seconds, auto), seconds(auto.min), seconds(auto.max)
    present = _within(present, auto)
    offered = sorted({min(max(each, shortest), longest) for each in (*CLASSES, DEFAULT_SECONDS)})
    best = min(offered, key=lambda each: expected_cost(pauses, each, wake))
    gains = expected_cost(pauses, best, wake) < (1 - GAIN) * expected_cost(pauses, present, wake)
    return best if gains else present


def wake_cost(wake_seconds: float, auto: AutoIdle) -> float:
    """Return the cost of a wake, in seconds of the model's accelerators.

    It is the sum of the accelerators that the wake uses and the value of the client's wait.
    """
    return wake_seconds * (1 + auto.wait_cost)


def _judged(known: IdleStatus, auto: AutoIdle, wake: WakeStatus | None) -> IdleStatus:
    """Return the status with the recommendation that follows from the pauses."""
    took = wake.p50_seconds if wake is not None else None
    pauses = weight(known.pauses)
    chosen: float | None = None
    if pauses < ENOUGH:
        why = f"{pauses:.0f} pauses of a minute or longer are known, and {ENOUGH:.0f} are needed"
    elif took is None:
        why = "no wake has been measured yet"
    else:
        message = known.recommended_after_idle
        present = seconds(message) if message is not None else DEFAULT_SECONDS
        chosen = recommended(known.pauses, took, auto, present)
        why = (
            f"with wakes of {duration_of(took)}, no other idle time would have been clearly cheaper over the "
            f"last {pauses:.0f} pauses"
        )
    return known.model_copy(
        update={
            "break_even_seconds": took,
            "recommended_after_idle": duration_of(chosen) if chosen is not None else None,
            "reason": why,
        }
    )


def _present(found: IdleStatus, auto: AutoIdle) -> float:
    message = found.recommended_after_idle
    return _within(seconds(message) if message is not None else DEFAULT_SECONDS, auto)


def _within(chosen: float, auto: AutoIdle) -> float:
    return min(max(chosen, seconds(auto.min)), seconds(auto.max))
