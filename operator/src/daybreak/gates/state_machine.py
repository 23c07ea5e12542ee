"""Sleep and wake of a service: a pure function of what is seen, what was decided before, and the time.

    Waking ── answers ──▶ Awake ── idle ──▶ Draining ── all gateways quiet ──▶ Asleep
      ▲  ▲                 ▲ ▲                 │                                 │
      │  └── can start ── Failed               └── a request ──▶ Awake           │
      └──────────────────────────── a request ───────────────────────────────────┘

The gate decides what happens to a request that arrives. Its epoch grows by one with each change of it, and
the gateways tell back which epoch they have carried out: a service falls asleep only when every gateway has
carried the closing out and says that nothing is on its way through it, nor held. What was decided is kept in
the service's status and nowhere else, so a new operator goes on where the one before was.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daybreak.api.common.scalars import seconds
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State
from daybreak.gates.traffic import Traffic

FORCED_ASLEEP = "The service has been put to sleep, and no request wakes it (state Asleep)."
"""What clients are told while a person keeps the service asleep."""


@dataclass(frozen=True)
class Wish:
    """What the person wants."""

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
    def depth(self) -> SleepDepth:
        """What is given back first."""
        return self.sleep.depth if self.sleep is not None else SleepDepth.WORKERS


@dataclass(frozen=True)
class Backend:
    """How the models are, in the form that they have when they are awake."""

    answers: bool
    """Whether requests get an answer: every model that can start has answered."""
    failed: str = ""
    """Why no model can start, in words for clients; empty when one can."""
    updating: bool = False
    """Whether a change of the spec is on its way to them."""
    stalled: bool = False
    """Whether somebody has to act before all of them answer."""


@dataclass(frozen=True)
class Course:
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


def start(now: datetime) -> Course:
    """The course of a service that was never decided on.

    Its first epoch is the time in milliseconds: later than any of an LLMService that had the name before, so
    that what a gateway tells of that one is no acknowledgement for this one.
    """
    return Course(Phase.WAKING, now, None, GateState.CLOSED, round(now.timestamp() * 1000))


def step(before: Course, wish: Wish, traffic: Traffic, backend: Backend, now: datetime) -> Course:
    """The next decision. The same input twice gives the same course: nothing changes by itself."""
    if before.asleep is not None:
        after = _asleep(before, before.asleep, wish, traffic)
    elif before.phase is Phase.DRAINING:
        after = _draining(before, wish, traffic, backend)
    elif before.gate is GateState.OPEN:
        after = _awake(before, wish, traffic, backend, now)
    else:
        after = _waking(before, wish, backend)
    if (after.gate, after.reason) != (before.gate, before.reason):
        after = replace(after, epoch=before.epoch + 1)
    return replace(after, since=now if after.phase is not before.phase else before.since)


def look_again(course: Course, wish: Wish, traffic: Traffic, now: datetime) -> timedelta | None:
    """When idleness alone may change the course that has just been decided; None: never."""
    sleep = wish.sleep
    if sleep is None or not traffic.known:
        return None
    if course.asleep is SleepDepth.WORKERS and sleep.cluster_after_idle is not None:
        return max(_left(sleep.cluster_after_idle, traffic), timedelta(0))
    if course.asleep is None and course.gate is GateState.OPEN and wish.may_sleep:
        after_idle = timedelta(seconds=seconds(sleep.after_idle))
        if traffic.held or traffic.in_flight:
            return after_idle
        left = max(_left(sleep.after_idle, traffic), course.since + after_idle - now)
        # Due, and still awake: what keeps it so is not the time, such as models that do not answer.
        return left if left > timedelta(0) else None
    return None


def _asleep(before: Course, depth: SleepDepth, wish: Wish, traffic: Traffic) -> Course:
    if not wish.must_sleep and (traffic.held or not wish.may_sleep):
        return replace(before, phase=Phase.WAKING, asleep=None, gate=GateState.CLOSED, reason="")
    deeper = wish.sleep.cluster_after_idle if wish.sleep is not None else None
    if wish.depth is SleepDepth.CLUSTER or (
        deeper is not None and traffic.known and _left(deeper, traffic) <= timedelta(0)
    ):
        depth = SleepDepth.CLUSTER
    return _shut(replace(before, phase=Phase.ASLEEP, asleep=depth), wish)


def _draining(before: Course, wish: Wish, traffic: Traffic, backend: Backend) -> Course:
    # A gate that refuses was shut by a person who no longer wants that: nothing says that it is idle.
    released = before.gate is GateState.FAILED
    if not wish.must_sleep and (released or traffic.held or not wish.may_sleep):
        return _waking(before, wish, backend)
    closed = _shut(before, wish)
    changed = (closed.gate, closed.reason) != (before.gate, before.reason)
    if changed or not _quiet(traffic, before.epoch):
        return closed
    return replace(closed, phase=Phase.ASLEEP, asleep=wish.depth)


def _awake(before: Course, wish: Wish, traffic: Traffic, backend: Backend, now: datetime) -> Course:
    if wish.must_sleep:
        return _shut(replace(before, phase=Phase.DRAINING), wish)
    if backend.failed and not backend.answers:
        return replace(before, phase=Phase.FAILED, gate=GateState.FAILED, reason=backend.failed)
    if wish.may_sleep and wish.sleep is not None and backend.answers and not backend.updating:
        after_idle = timedelta(seconds=seconds(wish.sleep.after_idle))
        idle = traffic.known and not traffic.held and not traffic.in_flight and traffic.idle >= after_idle
        # Who has just woken stays for as long as anybody who has just been asked.
        if idle and now - before.since >= after_idle:
            return _shut(replace(before, phase=Phase.DRAINING), wish)
    # The gate stays open for models that do not answer for the moment: what has been let through is with
    # them, and Serve, which knows best when they are back, lets the next ones wait.
    return replace(before, phase=_up(backend))


def _waking(before: Course, wish: Wish, backend: Backend) -> Course:
    if wish.must_sleep:
        # Nothing has been let through, but a gateway may not have heard of that yet.
        return _shut(replace(before, phase=Phase.DRAINING), wish)
    if backend.answers:
        return replace(before, phase=_up(backend), gate=GateState.OPEN, reason="")
    if backend.failed:
        return replace(before, phase=Phase.FAILED, gate=GateState.FAILED, reason=backend.failed)
    return replace(before, phase=Phase.WAKING, gate=GateState.CLOSED, reason="")


def _shut(course: Course, wish: Wish) -> Course:
    """With the gate of a service that sleeps, or is about to: it holds requests, or refuses them by force."""
    if wish.must_sleep:
        return replace(course, gate=GateState.FAILED, reason=FORCED_ASLEEP)
    return replace(course, gate=GateState.CLOSED, reason="")


def _up(backend: Backend) -> Phase:
    """The phase of a service whose gate is open."""
    if backend.stalled:
        return Phase.FAILED
    if backend.updating:
        return Phase.UPDATING
    return Phase.AWAKE if backend.answers else Phase.WAKING


def _quiet(traffic: Traffic, epoch: int) -> bool:
    """Whether every gateway has carried the closing out, and nobody is on the way or waits."""
    return traffic.known and traffic.acknowledged >= epoch and not traffic.in_flight and not traffic.held


def _left(idle: str, traffic: Traffic) -> timedelta:
    """How much of a time without requests is still to come."""
    return timedelta(seconds=seconds(idle)) - traffic.idle
