"""Cost of a trace of arrivals: a replay through the operator's decisions without a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase, WakeStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.sleep import Sleep, SleepDepth
from daybreak.api.schema.scalars import seconds
from daybreak.gates.idle_policy import ModelTraffic, idle_status, in_force, wake_cost
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import SHORTEST_PAUSE, Pause, Traffic

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
AWAKE = SleepState(Phase.AWAKE, BEGIN, None, GateState.OPEN, 1)
DRAINING = SleepState(Phase.DRAINING, BEGIN, None, GateState.CLOSED, 2)
WAKING = SleepState(Phase.WAKING, BEGIN, None, GateState.CLOSED, 2)


@dataclass(frozen=True)
class Cost:
    """Total cost of the pauses of a trace."""

    idle: float = 0.0
    """Seconds for which the model held its accelerators without a request."""
    wakes: int = 0
    wake: float = 0.0
    """Duration of each wake in seconds."""
    weight: float = 0.0
    """Cost of a wake in seconds of the model's accelerators."""
    changes: int = 0
    """Number of changes of the idle time."""

    @property
    def accelerators(self) -> float:
        """Return the seconds for which the model held its accelerators and served no request."""
        return self.idle + self.wakes * self.wake

    @property
    def total(self) -> float:
        """Return the accelerator seconds plus the weighted waits of clients."""
        return self.idle + self.wakes * self.weight


def replay(arrivals: Sequence[float], sleep: Sleep, wake: float) -> Cost:
    """Replay the pauses of a trace with a policy; requests and falling asleep take no time."""
    idle, wakes, changes = 0.0, 0, 0
    weight = wake_cost(wake, sleep.auto)
    measured: WakeStatus | None = None
    status: IdleStatus | None = None

    def reported(was: SleepState, now: SleepState, traffic: Traffic, at: float) -> IdleStatus | None:
        moment = BEGIN + timedelta(seconds=at)
        return idle_status(_gate(status), sleep, was, now, ModelTraffic(traffic, measured, moment))

    for before, now in pairwise(arrivals):
        gap = now - before
        after = seconds(in_force(sleep, _gate(status)).after_idle)
        was = status.after_idle if status is not None else None
        if gap > after:
            idle += after
            wakes += 1
            quiet = Traffic(known=True, idle=timedelta(seconds=after), requested=timedelta(seconds=after))
            status = reported(AWAKE, DRAINING, quiet, before + after)
            took = round(wake)
            measured = WakeStatus(
                depth=SleepDepth.WORKERS, start_time="", recent=[took], p50_seconds=took, p95_seconds=took
            )
            status = reported(WAKING, WAKING, Traffic(known=True, held=1, requested=timedelta(0)), now)
        else:
            idle += gap
            if gap >= SHORTEST_PAUSE.total_seconds():
                pause = Pause(timedelta(seconds=gap), timedelta(0))
                requested = Traffic(known=True, in_flight=1, requested=timedelta(0), pause=pause)
                status = reported(AWAKE, AWAKE, requested, now)
        changes += status is not None and was is not None and status.after_idle != was
    return Cost(idle, wakes, wake, weight, changes)


def _gate(status: IdleStatus | None) -> ModelGate:
    return ModelGate(
        name="m",
        state=GateState.OPEN,
        epoch=1,
        hold_seconds=900,
        phase=Phase.AWAKE,
        phase_transition_time="2026-01-05T00:00:00Z",
        idle=status,
    )
