"""Inputs and state of the sleep state machine (`state_machine.py`)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State, Yield


@dataclass(frozen=True)
class SleepPolicy:
    """Sleep settings in force: those of the spec, of annotations and of the schedule."""

    sleep: Sleep | None
    """None: never sleep by itself."""
    forced: State | None = None
    """Kept asleep or awake, whatever the traffic."""
    window: bool = False
    """Whether the schedule keeps it awake at this time."""

    @property
    def may_sleep(self) -> bool:
        """Whether idleness may put it to sleep now."""
        return self.sleep is not None and self.forced is None and not self.window

    @property
    def must_sleep(self) -> bool:
        """Whether it shall sleep, whatever the traffic."""
        return self.forced is State.ASLEEP

    @property
    def takes_turns(self) -> bool:
        """Whether it gives its accelerators to another one even while it is asked."""
        return self.may_sleep and self.sleep is not None and self.sleep.yields is Yield.ALWAYS

    @property
    def depth(self) -> SleepDepth:
        """What is given back first."""
        return self.sleep.depth if self.sleep is not None else SleepDepth.WORKERS


@dataclass(frozen=True)
class Health:
    """How a model is, in the form that it has when it is awake."""

    answers: bool
    """Whether requests get an answer."""
    drain: timedelta
    """How long requests in progress may take until its pods go all the same, as at every end of a pod."""
    failed: str = ""
    """Why it cannot start, in words for clients; empty when it can."""
    updating: bool = False
    """Whether a change of the spec is on its way to it."""
    hindered: bool = False
    """Whether something is known to be in its way, such as room that a second Ray cluster does not find."""
    waits: bool = False
    """Whether it is on the way up from sleep, and has not found room for one replica."""
    queues: bool = False
    """Whether others hold, or want before it, the accelerators for which it waits."""
    on_trial: bool = False
    """Whether it is on the way up to show that a change can start, whoever asks."""
    gives_way: bool = False
    """Whether another one waits for its accelerators, and it is the one that is to sleep for it."""
    preempted: bool = False
    """Whether it does so whatever its traffic and its settings, since the scheduler would delete its pods."""
    replaces: bool = False
    """Whether its Ray cluster is to go, so that another one can come."""


@dataclass(frozen=True)
class SleepState:
    """What was decided: kept in the status, and the start of the next decision."""

    phase: Phase
    since: datetime
    """When the phase began."""
    asleep: SleepDepth | None
    """What is given back; None: nothing."""
    gate: GateState
    epoch: int
    reason: str = ""
    """Why the gate refuses, in words for clients."""
    kept_awake: KeptAwake | None = None
    """Reason for which it does not yield while it is awake; None: it is not awake, or nothing prevents it."""
