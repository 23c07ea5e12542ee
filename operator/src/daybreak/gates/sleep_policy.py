"""Sleep and wake of a workload's models: the state machine's inputs, and its states as the status says it."""

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
"""Shortest and longest time for which requests are held by themselves, in seconds. Nothing waits longer in
Ray's own ingress either."""
HOLD_UNKNOWN = 900
"""The same while no wake has been measured: as long as a large model may take to load."""
REASON_LIMIT = 1000
"""Longest reason that clients are told, in characters."""


def gates_before(status: Mapping[str, Any]) -> dict[str, ModelGate]:
    """The gates as the status says them, by model; without those that are not in their form."""
    found = {}
    for item in mappings(mapping(status.get("gate")).get("models")):
        try:
            gate = ModelGate.model_validate(item)
        except ValidationError:
            continue
        found[gate.name] = gate
    return found


def backends_before(status: Mapping[str, Any]) -> list[str]:
    """The Ray clusters that requests went to, as the status says it."""
    backends = mappings(mapping(status.get("gate")).get("backends"))
    return [name for backend in backends if (name := text(backend.get("cluster")))]


def sleep_state_of(gate: ModelGate, now: datetime) -> SleepState:
    """What was decided before."""
    since = parse_time(gate.phase_transition_time) or now
    return SleepState(
        gate.phase, since, gate.sleep_depth, gate.state, gate.epoch, gate.reason or "", gate.kept_awake
    )


def depth(states: Iterable[SleepState]) -> SleepDepth | None:
    """What is given back of a workload: the whole Ray cluster only where all of its models say so."""
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
    """One word on a workload, from its models: what needs somebody's eye first."""
    return min((state.phase for state in states), key=_FIRST.index)


def sleep_policy(
    manifest: Manifest, sleep: Sleep | None, state: State | None, gate: ModelGate | None, now: datetime
) -> SleepPolicy:
    """What the person wants at this time: by the spec, or by the object's annotation, which takes
    precedence. An idle time that is left to the operator is the one that was decided on last."""
    annotated = text(at(manifest, "metadata", "annotations").get(names.STATE_ANNOTATION))
    forced = State(annotated) if annotated in set(State) else state
    window = sleep is not None and inside(sleep.schedule, now)
    wanted = in_force(sleep, gate) if sleep is not None else None
    return SleepPolicy(sleep=wanted, forced=forced, window=window)


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
    """A model's gate as gateways read it.

    `adapters` are the names of those that can be asked for; `after` are services that come before it where
    accelerators are scarce, `room` is how it waits for them, and `yielded_to` to whom it has given them.
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
    """How much longer a wake that is under way may wait for nodes: for as long as its requests are held.

    None: no wake is under way, or it has waited that long.
    """
    if gate is None or gate.wake is None or not gate.wake.under_way:
        return None
    left = (parse_time(gate.wake.start_time) or now) + timedelta(seconds=gate.hold_seconds) - now
    return left if left > timedelta(0) else None


def overdue(gate: ModelGate, now: datetime) -> bool:
    """Whether a wake has lasted longer than its requests were held: the first of them have been refused."""
    return gate.wake is not None and gate.wake.under_way and node_wait(gate, now) is None


def told_to_clients(said: Sequence[str]) -> str:
    """Why no model can start, in words for clients."""
    return "; ".join(said)[:REASON_LIMIT]


def hold_seconds(wakes: WakeStatus | None) -> int:
    """How long requests are held where the spec leaves it open: twice what nearly every wake has taken."""
    if wakes is None or wakes.p95_seconds is None:
        return HOLD_UNKNOWN
    shortest, longest = HOLD_BOUNDS
    return min(max(2 * wakes.p95_seconds, shortest), longest)


def _hold_seconds(hold: Hold, wakes: WakeStatus | None) -> int:
    return hold_seconds(wakes) if hold.timeout == "Auto" else max(1, round(seconds(hold.timeout)))
