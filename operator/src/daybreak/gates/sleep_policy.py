"""Sleep and wake of a workload's models: inputs of the state machine, and its states in the status."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.conditions import MAX_AFTER
from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, parse_time, text, written
from daybreak.api.gates.gate_status import ModelGate, Phase, RoomStatus, WakeStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.sleep import Hold, Sleep, SleepDepth, State
from daybreak.api.schema.scalars import seconds
from daybreak.gates.idle_policy import in_force
from daybreak.gates.schedule import inside
from daybreak.gates.sleep_state import SleepPolicy, SleepState

HOLD_BOUNDS = (300, 1800)
"""Minimum and maximum hold timeout with `hold.timeout: Auto`, in seconds.

Ray's own ingress does not queue requests for longer either.
"""
HOLD_UNKNOWN = 900
"""Hold timeout with `Auto` until a wake is measured, in seconds: the load time of a large model."""
REASON_LIMIT = 1000
"""Maximum length of a reason in responses to clients, in characters."""


def gates_before(status: Mapping[str, Any]) -> dict[str, ModelGate]:
    """Return the gates in the status, by model, without invalid ones."""
    found = {}
    for item in mappings(mapping(status.get("gate")).get("models")):
        try:
            gate = ModelGate.model_validate(item)
        except ValidationError:
            continue
        found[gate.name] = gate
    return found


def backends_before(status: Mapping[str, Any]) -> list[str]:
    """Return the Ray clusters that received requests, according to the status."""
    backends = mappings(mapping(status.get("gate")).get("backends"))
    return [name for backend in backends if (name := text(backend.get("cluster")))]


def sleep_state_of(gate: ModelGate, now: datetime) -> SleepState:
    """Return the previous decision on a gate."""
    since = parse_time(gate.phase_transition_time) or now
    return SleepState(
        gate.phase, since, gate.sleep_depth, gate.state, gate.epoch, gate.reason or "", gate.kept_awake
    )


def depth(states: Iterable[SleepState]) -> SleepDepth | None:
    """Return the depth to which a workload sleeps: the whole Ray cluster only if all of its models do."""
    depths = {state.asleep for state in states}
    if not depths or None in depths:
        return None
    return SleepDepth.WORKERS if SleepDepth.WORKERS in depths else SleepDepth.CLUSTER


_FIRST = (
    Phase.FAILED,
    Phase.REPLACING,
    Phase.UPDATING,
    Phase.WAKING,
    Phase.AWAKE,
    Phase.DRAINING,
    Phase.ASLEEP,
)


def phase(states: Iterable[SleepState]) -> Phase:
    """Return the phase of a workload from its models: the one that most needs attention."""
    return min((state.phase for state in states), key=_FIRST.index)


def sleep_policy(
    manifest: Manifest, sleep: Sleep | None, state: State | None, gate: ModelGate | None, now: datetime
) -> SleepPolicy:
    """Return the sleep policy for the current time, from the spec or from the object's annotation.

    The annotation takes precedence. With `Auto`, the idle time is the last decided one.
    """
    annotated = text(at(manifest, "metadata", "annotations").get(names.STATE_ANNOTATION))
    forced = State(annotated) if annotated in set(State) else state
    window = sleep is not None and inside(sleep.schedule, now)
    desired = in_force(sleep, gate) if sleep is not None else None
    return SleepPolicy(sleep=desired, forced=forced, window=window)


def model_gate(
    model: str,
    sleep_state: SleepState,
    hold: Hold | None,
    wake: WakeStatus | None,
    adapters: Sequence[str],
    after: Sequence[str] = (),
    idle: IdleStatus | None = None,
    room: RoomStatus | None = None,
    yielded_to: str | None = None,
) -> ModelGate:
    """Return a model's gate for the status that gateways read.

    `adapters` are the names of available adapters. `after` are the services ahead in the accelerator queue,
    `room` is the queue status, and `yielded_to` is the workload that received the accelerators.
    """
    return ModelGate(
        name=model,
        state=sleep_state.gate,
        epoch=sleep_state.epoch,
        hold_seconds=_hold_seconds(hold or Hold(), wake),
        adapters=list(adapters) or None,
        reason=sleep_state.reason[:REASON_LIMIT] or None,
        phase=sleep_state.phase,
        phase_transition_time=written(sleep_state.since),
        sleep_depth=sleep_state.asleep,
        kept_awake=sleep_state.kept_awake,
        queued_behind=list(after)[:MAX_AFTER] or None,
        yielded_to=yielded_to,
        accelerator_queue=room,
        wake=wake,
        idle=idle,
    )


def node_wait(gate: ModelGate | None, now: datetime) -> timedelta | None:
    """Return the remaining time for which a wake in progress may wait for nodes: until its hold timeout.

    None means that no wake is in progress, or that it has waited that long.
    """
    if gate is None or gate.wake is None or not gate.wake.under_way:
        return None
    left = (parse_time(gate.wake.start_time) or now) + timedelta(seconds=gate.hold_seconds) - now
    return left if left > timedelta(0) else None


def overdue(gate: ModelGate, now: datetime) -> bool:
    """Return True if a wake has exceeded the hold timeout, so that its first requests were rejected."""
    return gate.wake is not None and gate.wake.under_way and node_wait(gate, now) is None


def client_reason(report: Sequence[str]) -> str:
    """Return the reason why no model can start, for clients."""
    return "; ".join(report)[:REASON_LIMIT]


def hold_seconds(wakes: WakeStatus | None) -> int:
    """Return the hold timeout for `Auto`, in seconds: twice the 95th percentile of wake durations."""
    if wakes is None or wakes.p95_seconds is None:
        return HOLD_UNKNOWN
    shortest, longest = HOLD_BOUNDS
    return min(max(2 * wakes.p95_seconds, shortest), longest)


def _hold_seconds(hold: Hold, wakes: WakeStatus | None) -> int:
    return hold_seconds(wakes) if hold.timeout == "Auto" else max(1, round(seconds(hold.timeout)))
