"""After which idle time a model should sleep, from the pauses between its requests and its own wakes.

In a pause of length g a model that sleeps after t holds its accelerators for g when g is shorter than t, and
otherwise for t, and pays for a wake. The recommended t is that for which the remembered pauses cost least
(decision 41). A wake costs its length twice: the accelerators that it takes and that serve nobody, and the
client that waits, whose time is worth so many times as much (`sleep.auto.waitCost`).
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
"""`sleep.afterIdle` where nothing else is said, and with `Auto` while too little is known."""
ENOUGH = 8.0
"""Pauses that must be known before anything follows from them."""
GAIN = 0.05
"""What another idle time must save at least of the costs of the one that is in force."""


@dataclass(frozen=True)
class Seen:
    """What is seen of a model at a moment."""

    traffic: Traffic
    wake: WakeStatus | None
    """What its wakes have taken, after this look."""
    moment: datetime


def idle_status(
    gate: ModelGate | None, sleep: Sleep | None, was: SleepState, now: SleepState, seen: Seen
) -> IdleStatus | None:
    """What the status says after a decision; `was` is the state before it, `now` the one after. None of a
    model that never sleeps by itself, or as long as nothing is known."""
    if sleep is None:
        return None
    before = gate.idle if gate is not None and gate.idle is not None else IdleStatus()
    known = remembered(before, was, now, seen.traffic, seen.moment)
    found = _judged(known, sleep.auto, seen.wake)
    if sleep.after_idle == AUTO:
        found = found.model_copy(update={"after_idle": duration_of(_present(found, sleep.auto))})
    else:
        why = found.reason if found.pauses else None
        found = found.model_copy(update={"after_idle": None, "reason": why})
    return found if found != IdleStatus() else None


def in_force(sleep: Sleep, gate: ModelGate | None) -> Sleep:
    """What is asked for, with the idle time that `Auto` is at present: the one that the status says."""
    if sleep.after_idle != AUTO:
        return sleep
    idle = gate.idle if gate is not None else None
    said = idle.after_idle if idle is not None else None
    chosen = _within(seconds(said) if said is not None else DEFAULT_SECONDS, sleep.auto)
    return sleep.model_copy(update={"after_idle": duration_of(chosen)})


def look_again(before: ModelGate | None, after: ModelGate) -> timedelta | None:
    """When to look again after a decision: at once with another idle time in force, since what was decided
    went by the one before; None: not for this."""
    was = before.idle.after_idle if before is not None and before.idle is not None else None
    now = after.idle.after_idle if after.idle is not None else None
    return timedelta(0) if now is not None and now != was else None


def recommended(pauses: Sequence[float], wake_seconds: float, auto: AutoIdle, present: float) -> float:
    """The idle time, in seconds, that costs least; `present` while that is hardly dearer."""
    wake, shortest, longest = wake_cost(wake_seconds, auto), seconds(auto.min), seconds(auto.max)
    present = _within(present, auto)
    offered = sorted({min(max(each, shortest), longest) for each in (*CLASSES, DEFAULT_SECONDS)})
    best = min(offered, key=lambda each: expected_cost(pauses, each, wake))
    gains = expected_cost(pauses, best, wake) < (1 - GAIN) * expected_cost(pauses, present, wake)
    return best if gains else present


def wake_cost(wake_seconds: float, auto: AutoIdle) -> float:
    """What a wake costs, in seconds of the model's accelerators: those that it takes, and those that the
    wait of a client is worth."""
    return wake_seconds * (1 + auto.wait_cost)


def _judged(known: IdleStatus, auto: AutoIdle, wake: WakeStatus | None) -> IdleStatus:
    """With what follows from the pauses."""
    took = wake.p50_seconds if wake is not None else None
    pauses = weight(known.pauses)
    chosen: float | None = None
    if pauses < ENOUGH:
        why = f"{pauses:.0f} pauses of a minute or longer are known, and {ENOUGH:.0f} are needed"
    elif took is None:
        why = "no wake has been measured yet"
    else:
        said = known.recommended_after_idle
        present = seconds(said) if said is not None else DEFAULT_SECONDS
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
    said = found.recommended_after_idle
    return _within(seconds(said) if said is not None else DEFAULT_SECONDS, auto)


def _within(chosen: float, auto: AutoIdle) -> float:
    return min(max(chosen, seconds(auto.min)), seconds(auto.max))
