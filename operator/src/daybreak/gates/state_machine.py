"""Sleep and wake of a model: a pure function of the observation, the previous decision and the time.

    Waking ── answers ──▶ Awake ── idle ──▶ Draining ── all gateways quiet ──▶ Asleep
      ▲  ▲                 ▲ ▲                 │                                 │
      │  └── can start ── Failed               └── a request ──▶ Awake           │
      └──────────────────────────── a request ───────────────────────────────────┘

An unscheduled wake without remaining clients drains too. It drains after `YIELD_IDLE` at most if the model
is in a queue for accelerators that others hold or will get first. Two other models drain early: an idle model
whose accelerators another model waits for, and a busy one that takes turns. The busy one falls asleep while
the gateway holds its requests, and wakes for them when its turn comes.

Regardless of traffic and settings, a model drains for another one whose pod priority would make the scheduler
delete its pods. Its requests in flight may finish within the normal drain time of a pod. It does not return
before the other model has been scheduled.

Regardless of traffic, a model whose pods must be replaced passes through Replacing: its gate closes, its
requests in flight finish, and its Ray cluster is released. It then wakes at once in another Ray cluster. Held
requests stay held.

The gate decides how an arriving request is treated. Its epoch grows by one with each change of the gate, and
the gateways report the epoch that they have applied. A model falls asleep only after every gateway has
applied the closing and reports no request in flight or held. The decision is kept in the workload's status
only, so a new operator continues where the previous one stopped.
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
"""Reason in responses to clients while an administrator keeps the service asleep."""
YIELD_IDLE = timedelta(seconds=2)
"""Time without requests after which a model yields or leaves a queue: one client's pause between requests."""
UPDATE_PATIENCE = timedelta(hours=2)
"""Maximum time for which a rollout in progress keeps an idle service awake."""


def start(now: datetime, policy: SleepPolicy, asleep: SleepDepth | None = None) -> SleepState:
    """Return the first state of a model.

    A model that must sleep from the beginning starts in a sleeping state. It therefore ends in the same state
    as one that is put to sleep later.

    The first epoch is the time in milliseconds. It is later than any epoch of a previous workload of the same
    name. A gateway's report on that workload therefore does not acknowledge this one.

    Args:
        now: The current time.
        policy: The sleep policy.
        asleep: Depth of sleep from the beginning, unless the model must be awake; None to start awake.
    """
    epoch = round(now.timestamp() * 1000)
    if policy.must_sleep:
        return SleepState(Phase.ASLEEP, now, asleep or policy.depth, GateState.FAILED, epoch, FORCED_ASLEEP)
    if asleep is not None:
        return SleepState(Phase.ASLEEP, now, asleep, GateState.CLOSED, epoch)
    return SleepState(Phase.WAKING, now, None, GateState.CLOSED, epoch)


@dataclass(frozen=True)
class Step:
    """A decision, and the time after which it may change without an event."""

    state: SleepState
    look_again: timedelta | None
    """Time until the next decision, or None if only an event changes it."""


def decide(before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, now: datetime) -> Step:
    """Return the next decision, and when it is due again."""
    moments = Moments(now)
    after = _next(before, policy, traffic, health, moments)
    if after != before:
        moments = Moments(now)
        # If the gate was closed before its model began to drain, no gateway report triggers the next step.
        if _next(after, policy, traffic, health, moments) != after:
            return Step(after, timedelta(0))
    return Step(after, moments.look_again)


def step(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, now: datetime
) -> SleepState:
    """Return the next decision. The same input twice gives the same state."""
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
    elif health.waits and _without_clients(before, policy, traffic, health, moments):
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
            # The replacement was canceled: the current pods stay.
            return _waking(before, policy, health)
        if policy.must_sleep:
            return _shut(replace(before, phase=Phase.ASLEEP), policy)
        return replace(before, phase=Phase.WAKING, asleep=None, gate=GateState.CLOSED, reason="")
    if before.asleep is not None:
        # A sleeping model releases the rest of its Ray cluster and continues to sleep.
        return _shut(replace(before, asleep=SleepDepth.CLUSTER), policy)
    if before.phase is Phase.DRAINING and not traffic.held:
        drained = _draining(before, policy, traffic, health)
        if drained.phase in (Phase.DRAINING, Phase.ASLEEP):
            return drained
    carried_out = traffic.known and traffic.acknowledged >= before.epoch
    if before.phase is not Phase.REPLACING:
        begun = _shut(replace(before, phase=Phase.REPLACING), policy)
        # A model that has never answered has received no requests, so nothing must drain.
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
    requested = bool(traffic.held) and not _turn_is_over(policy, health)
    if not policy.must_sleep and (requested or not policy.may_sleep):
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
    # An administrator forced a rejecting gate and has since withdrawn that: it is no sign of idleness.
    released = before.gate is GateState.FAILED
    requested = bool(traffic.held) and not _turn_is_over(policy, health)
    if not policy.must_sleep and (released or requested or not policy.may_sleep):
        return _waking(before, policy, health)
    closed = _shut(before, policy)
    changed = (closed.gate, closed.reason) != (before.gate, before.reason)
    if changed or requested or not _passed(traffic, before.epoch):
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
        # A rollout that makes progress keeps the model awake. One without capacity would do so forever:
        # asleep, the model releases its accelerators, and it wakes as the new revision.
        changing = health.updating and not health.hindered
        may_end = not changing or moments.reached(before.since + UPDATE_PATIENCE)
        if may_end and _ends(before, policy, policy.sleep, traffic, health, moments):
            return _shut(replace(before, phase=Phase.DRAINING), policy)
    # The gate stays open for a model that temporarily does not answer: it has the forwarded requests already,
    # and Serve, which detects its return first, queues further ones.
    return replace(before, phase=_up(health))


def _ends(
    before: SleepState, policy: SleepPolicy, sleep: Sleep, traffic: Traffic, health: Health, moments: Moments
) -> bool:
    """Return True if an awake model must fall asleep, for another one or because it is idle."""
    yields = may_yield_at(before, policy, traffic, moments.now) if health.gives_way else None
    if yields is not None and moments.reached(yields):
        return True
    after_idle = timedelta(seconds=seconds(sleep.after_idle))
    if not traffic.known:
        return False
    if traffic.held or traffic.in_flight:
        # A request in use keeps the idle time at zero. A health check does not, and ends soon.
        soon = max(_idle_since(traffic, moments) + after_idle, moments.now + YIELD_IDLE)
        moments.reached(moments.now + after_idle if traffic.held else soon)
        return False
    # A model that has just woken stays awake as long as one with a recent request.
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
    """Return the time from which policy and traffic allow an awake model to yield, or None.

    None means that they do not, or that the model has requests and does not take turns.
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


def has_lost_clients(policy: SleepPolicy, traffic: Traffic) -> bool:
    """Return True if a model that wakes only for requests has no clients left, as far as is reported."""
    return policy.may_sleep and traffic.known and not traffic.held and not traffic.in_flight


def busy(traffic: Traffic) -> bool:
    """Return True if a model has requests, or had one within `YIELD_IDLE`."""
    return bool(traffic.held or traffic.in_flight or traffic.idle < YIELD_IDLE)


def _waking(before: SleepState, policy: SleepPolicy, health: Health) -> SleepState:
    if policy.must_sleep:
        # No request was forwarded, but a gateway may not have received the closed gate yet.
        return _shut(replace(before, phase=Phase.DRAINING), policy)
    if health.answers:
        return replace(before, phase=_up(health), gate=GateState.OPEN, reason="")
    if health.failed:
        return replace(before, phase=Phase.FAILED, gate=GateState.FAILED, reason=health.failed)
    return replace(before, phase=Phase.WAKING, gate=GateState.CLOSED, reason="")


def _without_clients(
    before: SleepState, policy: SleepPolicy, traffic: Traffic, health: Health, moments: Moments
) -> bool:
    """Return True if all clients of a waking model have gone.

    Such a model would take the next free accelerators for no client while another model waits for them. If no
    other model waits, a node may be added for its pods, so it waits longer for new clients.
    """
    if health.answers or policy.sleep is None or not has_lost_clients(policy, traffic):
        return False
    after_idle = timedelta(seconds=seconds(policy.sleep.after_idle))
    patience = min(YIELD_IDLE, after_idle) if health.queues and not health.on_trial else after_idle
    return moments.reached(max(_idle_since(traffic, moments), before.since) + patience)


def _turn_is_over(policy: SleepPolicy, health: Health) -> bool:
    """Return True if held requests must wait until another model has had its turn."""
    return health.gives_way and policy.takes_turns


def _shut(sleep_state: SleepState, policy: SleepPolicy) -> SleepState:
    """Return the state with the gate of a sleeping model: closed, or failed if sleep is forced."""
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
    """Return the phase of a model with an open gate."""
    if health.updating:
        return Phase.UPDATING
    return Phase.AWAKE if health.answers else Phase.WAKING


def _passed(traffic: Traffic, epoch: int) -> bool:
    """Return True if every gateway has applied the epoch and no request is in flight."""
    return traffic.known and traffic.acknowledged >= epoch and not traffic.in_flight


def _idle_since(traffic: Traffic, moments: Moments) -> datetime:
    """Return since when no request has arrived or ended."""
    return moments.now - traffic.idle
