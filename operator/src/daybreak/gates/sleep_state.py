"""Inputs and state of the sleep state machine (`state_machine.py`)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State, Yield


@dataclass(frozen=True)
class SleepPolicy:
    """Sleep settings in force, from the spec, annotations and the schedule."""

    sleep: Sleep | None
    """Sleep settings, or None if the model never sleeps by itself."""
    forced: State | None = None
    """State that is forced regardless of traffic."""
    window: bool = False
    """True if the schedule currently keeps the model awake."""

    @property
    def may_sleep(self) -> bool:
        """True if the model may currently sleep when idle."""
        return self.sleep is not None and self.forced is None and not self.window

    @property
    def must_sleep(self) -> bool:
        """True if the model must sleep regardless of traffic."""
        return self.forced is State.ASLEEP

    @property
    def takes_turns(self) -> bool:
        """True if the model yields its accelerators to another one even under load."""
        return self.may_sleep and self.sleep is not None and self.sleep.yields is Yield.ALWAYS

    @property
    def depth(self) -> SleepDepth:
        """Depth of sleep that the model reaches first."""
        return self.sleep.depth if self.sleep is not None else SleepDepth.WORKERS


@dataclass(frozen=True)
class Health:
    """Health of a model in its awake form."""

    answers: bool
    """True if requests are answered."""
    drain: timedelta
    """Maximum time for requests in progress before the pods end anyway, as at every end of a pod."""
    failed: str = ""
    """Reason why the model cannot start, for clients. Empty if it can."""
    updating: bool = False
    """True while a change of the spec is being rolled out to the model."""
    hindered: bool = False
    """True if a problem is known, such as a second Ray cluster that cannot be scheduled."""
    waits: bool = False
    """True if the model wakes from sleep and the pods of one replica have not been scheduled."""
    queues: bool = False
    """True if others hold, or will get first, the accelerators for which the model waits."""
    on_trial: bool = False
    """True if the model starts to verify a rollout, regardless of traffic."""
    gives_way: bool = False
    """True if the model must sleep for another one that waits for its accelerators."""
    preempted: bool = False
    """True if the model must do so regardless of traffic and settings, or the scheduler deletes its pods."""
    replaces: bool = False
    """True if the model's Ray cluster must be deleted so that another one can start."""


@dataclass(frozen=True)
class SleepState:
    """Last decision, kept in the status, and the start of the next decision."""

    phase: Phase
    since: datetime
    """Start of the phase."""
    asleep: SleepDepth | None
    """Depth of sleep, or None if nothing is released."""
    gate: GateState
    epoch: int
    reason: str = ""
    """Reason why the gate rejects requests, for clients."""
    kept_awake: KeptAwake | None = None
    """Reason why an awake model does not yield, or None if it is not awake or nothing prevents it."""
