"""Sleep and wake of a model: a pure function of what is seen, what was decided before, and the time.

    Waking ── answers ──▶ Awake ── idle ──▶ Draining ── all gateways quiet ──▶ Asleep
      ▲  ▲                 ▲ ▲                 │                                 │
      │  └── can start ── Failed               └── a request ──▶ Awake           │
      └──────────────────────────── a request ───────────────────────────────────┘

    A wake that has found no room, and for which nobody waits any more, drains too: at once where it stands in
    a queue for accelerators that others hold, or want before it. So does, before its time, an idle model for
    whose accelerators another one waits; and one that is asked, where it takes turns. That one falls asleep
    with the requests that are held for it, and wakes for them when its turn comes.

    Whatever the traffic and whatever its settings, a model drains for another one whose pods have a priority
    for which the scheduler would delete its own. What runs is finished, for as long as at any end of a pod,
    and it does not come back before the other one has room.

    Whatever the traffic, a model whose pods are to be replaced goes through Replacing: its gate closes, what
    runs ends, the Ray cluster is given back, and it wakes at once in another one. Held requests stay held.

The gate decides what happens to a request that arrives. Its epoch grows by one with each change of it, and
the gateways tell back which epoch they have carried out: a model falls asleep only when every gateway has
carried the closing out and says that nothing is on its way through it, nor held. What was decided is kept in
the workload's status and nowhere else, so a new operator goes on where the one before was.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daybreak.api.common.moments import Moments
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, Yield
from daybreak.api.schema.scalars import seconds
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.traffic import Traffic

FORCED_ASLEEP = "The service has been put to sleep, and no request wakes it (state Asleep)."
"""What clients are told while a person keeps the service asleep."""
YIELD_IDLE = timedelta(seconds=2)
"""How long nobody must have asked a model that gives way, or that leaves a queue: the pause between two
requests of one client."""
UPDATE_PATIENCE = timedelta(hours=2)
"""How long a change that is on its way may keep a service awake that nobody asks."""


def start(now: datetime, policy: SleepPolicy, asleep: SleepDepth | None = None) -> SleepState:
    """The state of a model that was never decided on. One that shall sleep from the beginning is made as one
    that sleeps, so that it ends where one ends that is put to sleep later.

    Its first epoch is the time in milliseconds: later than any of a workload that had the name before, so
    that what a gateway tells of that one is no acknowledgement for this one.

    Args:
        now: The time.
        policy: What the person wants.
        asleep: What is given back of it from the beginning, unless it must be awake; None: nothing.
    """
    epoch = round(now.timestamp() * 1000)
    if policy.must_sleep:
        return SleepState(Phase.ASLEEP, now, asleep or policy.depth, GateState.FAILED, epoch, FORCED_ASLEEP)
    if asleep is not None:
        return SleepState(Phase.ASLEEP, now, asleep, GateState.CLOSED, epoch)
    return SleepState(Phase.WAKING, now, None, GateState.CLOSED, epoch)


@dataclass(frozen=True)
class Step:
    """A decision, and when time alone may change it."""

    state: SleepState
    look_again: timedelta | None
    """None: only an event changes it."""


def decide(before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, now: datetime) -> Step:
    """Return the next decision, and when it is due again."""
    moments = Moments(now)
    after = _next(before, policy, traffic, health, moments)
    if after != before:
        moments = Moments(now)
        # Where a gate was closed before its model began to drain, no gateway has anything to report of that.
        if _next(after, policy, traffic, health, moments) != after:
            return Step(after, timedelta(0))
    return Step(after, moments.look_again)


def step(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, now: datetime
) -> SleepState:
    """The next decision. The same input twice gives the same state: nothing changes by itself."""
    return _next(before, policy, traffic, health, Moments(now))


def _next(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> SleepState:
    if health.replaces or (before.phase is Phase.REPLACING and not health.preempted):
        after = _replacing(before, policy, traffic, health, moments)
    elif health.preempted:
        after = _preempted(before, policy, traffic, health, moments)
    elif before.asleep is not None:
        after = _asleep(before, before.asleep, policy, traffic, health, moments)
    elif before.phase is Phase.DRAINING:
        after = _draining(before, policy, traffic, health)
    elif before.gate is GateState.OPEN:
        after = _awake(before, policy, traffic, health, moments)
    elif health.waits and _forgotten(before, policy, traffic, health, moments):
        after = _shut(replace(before, phase=Phase.DRAINING), policy)
    else:
        after = _waking(before, policy, health)
    if (after.gate, after.reason) != (before.gate, before.reason):
        after = replace(after, epoch=before.epoch + 1)
    after = replace(after, kept_awake=_kept_awake(after, health))
    return replace(after, since=moments.now if after.phase is not before.phase else before.since)


def _replacing(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> SleepState:
    if not health.replaces:
        if before.asleep is None:
            # Called off: what is there goes on.
            return _waking(before, policy, health)
        if policy.must_sleep:
            return _shut(replace(before, phase=Phase.ASLEEP), policy)
        return replace(before, phase=Phase.WAKING, asleep=None, gate=GateState.CLOSED, reason="")
    if before.asleep is not None:
        # One that sleeps gives back what is left of its Ray cluster, and goes on sleeping.
        return _shut(replace(before, asleep=SleepDepth.CLUSTER), policy)
    if before.phase is Phase.DRAINING and not traffic.held:
        drained = _draining(before, policy, traffic, health)
        if drained.phase in (Phase.DRAINING, Phase.ASLEEP):
            return drained
    carried_out = traffic.known and traffic.acknowledged >= before.epoch
    if before.phase is not Phase.REPLACING:
        begun = _shut(replace(before, phase=Phase.REPLACING), policy)
        # To what has never answered nothing was let through: nothing of it is waited for.
        unused = before.phase is Phase.WAKING and before.gate is begun.gate and not health.answers
        return replace(begun, asleep=SleepDepth.CLUSTER) if unused and carried_out else begun
    closed = _shut(before, policy)
    changed = (closed.gate, closed.reason) != (before.gate, before.reason)
    if changed or not carried_out:
        return closed
    if traffic.in_flight and not moments.reached(before.since + health.drain):
        return closed
    return replace(closed, asleep=SleepDepth.CLUSTER)


def _preempted(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> SleepState:
    closed = _shut(before, policy)
    if before.asleep is not None:
        return replace(closed, phase=Phase.ASLEEP)
    if before.phase is not Phase.DRAINING:
        return replace(closed, phase=Phase.DRAINING)
    carried_out = traffic.known and traffic.acknowledged >= before.epoch
    changed = (closed.gate, closed.reason) != (before.gate, before.reason)
    if changed or not carried_out:
        return closed
    if traffic.in_flight and not moments.reached(before.since + health.drain):
        return closed
    return replace(closed, phase=Phase.ASLEEP, asleep=policy.depth)


def _asleep(
    before: SleepState,
    depth: SleepDepth,
    policy: SleepPolicy,
    traffic: Traffic,
    health: Health,
    moments: Moments,
) -> SleepState:
    asked = bool(traffic.held) and not _turn_is_over(policy, health)
    if not policy.must_sleep and (asked or not policy.may_sleep):
        return replace(before, phase=Phase.WAKING, asleep=None, gate=GateState.CLOSED, reason="")
    deeper = policy.sleep.cluster_after_idle if policy.sleep is not None else None
    waits = depth is SleepDepth.WORKERS and deeper is not None and traffic.known
    idle = timedelta(seconds=seconds(deeper)) if waits and deeper is not None else timedelta.max
    if policy.depth is SleepDepth.CLUSTER or (
        waits and moments.reached(_idle_since(traffic, moments) + idle)
    ):
        depth = SleepDepth.CLUSTER
    return _shut(replace(before, phase=Phase.ASLEEP, asleep=depth), policy)


def _draining(before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health) -> SleepState:
    # A gate that refuses was shut by a person who no longer wants that: nothing says that it is idle.
    released = before.gate is GateState.FAILED
    asked = bool(traffic.held) and not _turn_is_over(policy, health)
    if not policy.must_sleep and (released or asked or not policy.may_sleep):
        return _waking(before, policy, health)
    closed = _shut(before, policy)
    changed = (closed.gate, closed.reason) != (before.gate, before.reason)
    if changed or asked or not _passed(traffic, before.epoch):
        return closed
    return replace(closed, phase=Phase.ASLEEP, asleep=policy.depth)


def _awake(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> SleepState:
    if policy.must_sleep:
        return _shut(replace(before, phase=Phase.DRAINING), policy)
    if health.failed and not health.answers:
        return replace(before, phase=Phase.FAILED, gate=GateState.FAILED, reason=health.failed)
    if policy.may_sleep and policy.sleep is not None and health.answers:
        # A change that gets on is waited for. One that has no room would keep it awake for ever: asleep it
        # gives its accelerators back, and wakes as what it is to be.
        changing = health.updating and not health.hindered
        may_end = not changing or moments.reached(before.since + UPDATE_PATIENCE)
        if may_end and _ends(before, policy, policy.sleep, traffic, health, moments):
            return _shut(replace(before, phase=Phase.DRAINING), policy)
    # The gate stays open for a model that does not answer for the moment: what has been let through is with
    # it, and Serve, which knows best when it is back, lets the next ones wait.
    return replace(before, phase=_up(health))


def _ends(
    before: SleepState, policy: SleepPolicy, sleep: Sleep, traffic: Traffic, health: Health, moments: Moments
) -> bool:
    """Whether a model that is awake falls asleep: for another one, or since no client asks it."""
    yields = may_yield_at(before, policy, traffic, moments.now) if health.gives_way else None
    if yields is not None and moments.reached(yields):
        return True
    after_idle = timedelta(seconds=seconds(sleep.after_idle))
    if not traffic.known:
        return False
    if traffic.held or traffic.in_flight:
        # A use is in progress with no idle time. A health check is with one, and ends in a moment.
        soon = max(_idle_since(traffic, moments) + after_idle, moments.now + YIELD_IDLE)
        moments.reached(moments.now + after_idle if traffic.held else soon)
        return False
    # One that has just woken stays for as long as one that has just been asked.
    return moments.reached(max(_idle_since(traffic, moments), before.since) + after_idle)


def yields_at(
    sleep_state: SleepState, policy: SleepPolicy, traffic: Traffic, now: datetime
) -> datetime | None:
    """Return the time from which an awake model yields if another one waits, or None if it does not.

    `step` applies the same conditions: a model that would stay awake must not block the next candidate.
    """
    found = may_yield_at(sleep_state, policy, traffic, now)
    if found is None or sleep_state.kept_awake is KeptAwake.NO_ANSWER:
        return None
    if sleep_state.kept_awake is KeptAwake.UPDATE:
        return max(found, sleep_state.since + UPDATE_PATIENCE)
    return found


def may_yield_at(
    sleep_state: SleepState, policy: SleepPolicy, traffic: Traffic, now: datetime
) -> datetime | None:
    """Return the time from which its policy and its traffic allow an awake model to yield.

    None: they do not, or the model has requests and does not take turns.
    """
    sleep = policy.sleep
    if sleep is None or not policy.may_sleep or sleep.yields is Yield.NEVER:
        return None
    if sleep_state.asleep is not None or sleep_state.gate is not GateState.OPEN or not traffic.known:
        return None
    turn_ends = sleep_state.since + timedelta(seconds=seconds(sleep.min_awake))
    if policy.takes_turns:
        return turn_ends
    if traffic.held or traffic.in_flight:
        return None
    return max(now - traffic.idle + YIELD_IDLE, turn_ends)


def forsaken(policy: SleepPolicy, traffic: Traffic) -> bool:
    """Whether nobody asks for a model any more that wakes for nothing but requests, as far as is heard."""
    return policy.may_sleep and traffic.known and not traffic.held and not traffic.in_flight


def busy(traffic: Traffic) -> bool:
    """Whether somebody asks a model, or has asked a moment ago."""
    return bool(traffic.held or traffic.in_flight or traffic.idle < YIELD_IDLE)


def _waking(before: SleepState, policy: SleepPolicy, health: Health) -> SleepState:
    if policy.must_sleep:
        # Nothing has been let through, but a gateway may not have heard of that yet.
        return _shut(replace(before, phase=Phase.DRAINING), policy)
    if health.answers:
        return replace(before, phase=_up(health), gate=GateState.OPEN, reason="")
    if health.failed:
        return replace(before, phase=Phase.FAILED, gate=GateState.FAILED, reason=health.failed)
    return replace(before, phase=Phase.WAKING, gate=GateState.CLOSED, reason="")


def _forgotten(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> bool:
    """Whether everybody has gone for whom a model wakes: it would take the next accelerators that are free
    for nobody, while somebody else waits for them.

    Where nobody else does, its pods may be what a node is added for, so it waits on for who comes again.
    """
    if health.answers or policy.sleep is None or not forsaken(policy, traffic):
        return False
    after_idle = timedelta(seconds=seconds(policy.sleep.after_idle))
    patience = min(YIELD_IDLE, after_idle) if health.queues and not health.on_trial else after_idle
    return moments.reached(max(_idle_since(traffic, moments), before.since) + patience)


def _turn_is_over(policy: SleepPolicy, health: Health) -> bool:
    """Whether those who ask have to wait until another model has had its turn."""
    return health.gives_way and policy.takes_turns


def _shut(sleep_state: SleepState, policy: SleepPolicy) -> SleepState:
    """With the gate of a model that sleeps, or is about to: it holds requests, or refuses them by force."""
    if policy.must_sleep:
        return replace(sleep_state, gate=GateState.FAILED, reason=FORCED_ASLEEP)
    return replace(sleep_state, gate=GateState.CLOSED, reason="")


def _kept_awake(sleep_state: SleepState, health: Health) -> KeptAwake | None:
    if sleep_state.gate is not GateState.OPEN or sleep_state.asleep is not None:
        return None
    if not health.answers:
        return KeptAwake.NO_ANSWER
    return KeptAwake.UPDATE if health.updating and not health.hindered else None


def _up(health: Health) -> Phase:
    """The phase of a model whose gate is open."""
    if health.updating:
        return Phase.UPDATING
    return Phase.AWAKE if health.answers else Phase.WAKING


def _passed(traffic: Traffic, epoch: int) -> bool:
    """Whether every gateway has carried the closing out, and nobody is on the way."""
    return traffic.known and traffic.acknowledged >= epoch and not traffic.in_flight


def _idle_since(traffic: Traffic, moments: Moments) -> datetime:
    """Since when no request has come or ended."""
    return moments.now - traffic.idle
