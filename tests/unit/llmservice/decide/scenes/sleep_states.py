"""Sleep states, policies, traffic and models, for the tests of sleep and wake."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP
from daybreak.gates.traffic import Traffic

OPEN, CLOSED, REFUSING = GateState.OPEN, GateState.CLOSED, GateState.FAILED
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
MINUTE = timedelta(minutes=1)
BROKEN = "the weights do not fit"

UP = Health(answers=True, drain=MINUTE)
DOWN = Health(answers=False, drain=MINUTE)
FAILING = Health(answers=False, drain=MINUTE, failed=BROKEN)

NEVER = SleepPolicy(None)
SLEEPS = SleepPolicy(Sleep(after_idle="10m"))
SLEEPS_DEEP = SleepPolicy(Sleep(after_idle="10m", depth=SleepDepth.CLUSTER))
DEEPER_LATER = SleepPolicy(Sleep(after_idle="10m", cluster_after_idle="2h"))
IN_WINDOW = replace(SLEEPS, window=True)
KEPT_AWAKE = replace(SLEEPS, forced=State.AWAKE)
KEPT_ASLEEP = replace(SLEEPS, forced=State.ASLEEP)

IDLE = Traffic(known=True, idle=timedelta(minutes=10), acknowledged=5)
LATELY = replace(IDLE, idle=timedelta(minutes=9))
ASKED = replace(IDLE, held=1)
STREAMING = replace(IDLE, in_flight=1)
UNHEARD = replace(IDLE, known=False)
UNTOLD = replace(IDLE, acknowledged=4)
LONG_IDLE = replace(IDLE, idle=timedelta(hours=2))


def sleep_state(
    phase: Phase, gate: GateState, *, asleep: SleepDepth | None = None, reason: str = "", epoch: int = 5
) -> SleepState:
    """Return a sleep state that began an hour ago."""
    return SleepState(phase, LONG_AGO, asleep, gate, epoch, reason)


WAKING = sleep_state(Phase.WAKING, CLOSED)
AWAKE = sleep_state(Phase.AWAKE, OPEN)
UPDATING = replace(sleep_state(Phase.UPDATING, OPEN), kept_awake=KeptAwake.UPDATE)
DRAINING = sleep_state(Phase.DRAINING, CLOSED)
DRAINING_FORCED = sleep_state(Phase.DRAINING, REFUSING, reason=FORCED_ASLEEP)
ASLEEP = sleep_state(Phase.ASLEEP, CLOSED, asleep=SleepDepth.WORKERS)
ASLEEP_DEEP = sleep_state(Phase.ASLEEP, CLOSED, asleep=SleepDepth.CLUSTER)
ASLEEP_FORCED = sleep_state(Phase.ASLEEP, REFUSING, asleep=SleepDepth.WORKERS, reason=FORCED_ASLEEP)
FAILED = sleep_state(Phase.FAILED, REFUSING, reason=BROKEN)


def changed(
    before: SleepState, phase: Phase, gate: GateState, asleep: SleepDepth | None = None, reason: str = ""
) -> SleepState:
    """Return the sleep state that results from a change of the phase or the gate."""
    epoch = before.epoch + ((gate, reason) != (before.gate, before.reason))
    since = before.since if phase is before.phase else NOW
    return SleepState(phase, since, asleep, gate, epoch, reason)
