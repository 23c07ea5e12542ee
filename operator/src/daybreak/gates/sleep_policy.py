"""Sleep and wake of one workload: the state machine's inputs, and its state as the status keeps it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.common.scalars import seconds
from daybreak.api.common.unstructured import Manifest, at, mapping, parse_time, text, whole
from daybreak.api.gates.gate_status import GateState, GateStatus, Phase, WakeStatus
from daybreak.api.gates.sleep import Hold, Sleep, SleepDepth, State
from daybreak.gates.schedule import inside
from daybreak.gates.state_machine import SleepPolicy, SleepState, start

HOLD_BOUNDS = (300, 1800)
"""Shortest and longest time for which requests are held by themselves, in seconds. Nothing waits longer in
Ray's own ingress either."""
HOLD_UNKNOWN = 900
"""The same while no wake has been measured: as long as a large model may take to load."""
REASON_LIMIT = 1000
"""Longest reason that clients are told, in characters."""


def sleep_state_before(status: Mapping[str, Any], now: datetime) -> SleepState | None:
    """What was decided before; None when the status does not say it."""
    gate = mapping(status.get("gate"))
    phase, state, asleep = text(status.get("phase")), text(gate.get("state")), text(status.get("asleep"))
    if phase not in set(Phase) or state not in set(GateState):
        return None
    return SleepState(
        phase=Phase(phase),
        since=parse_time(text(status.get("phaseSince"))) or now,
        asleep=SleepDepth(asleep) if asleep in set(SleepDepth) else None,
        gate=GateState(state),
        epoch=whole(gate.get("epoch")),
        reason=text(gate.get("reason")),
    )


def sleep_state_or_start(
    status: Mapping[str, Any], now: datetime, policy: SleepPolicy | None = None
) -> SleepState:
    """What was decided before, or the beginning."""
    return sleep_state_before(status, now) or start(now, policy)


def sleep_policy(manifest: Manifest, sleep: Sleep | None, state: State | None, now: datetime) -> SleepPolicy:
    """What the person wants at this time: by the spec, or by the object's annotation, which takes
    precedence."""
    annotated = text(at(manifest, "metadata", "annotations").get(names.STATE_ANNOTATION))
    forced = State(annotated) if annotated in set(State) else state
    window = sleep is not None and inside(sleep.schedule, now)
    return SleepPolicy(sleep=sleep, forced=forced, window=window)


def gate_status(
    sleep_state: SleepState,
    hold: Hold | None,
    port: int,
    cluster: str,
    wakes: WakeStatus | None,
    models: Sequence[str],
) -> GateStatus:
    """The gate as gateways read it; `models` are the names that can be asked for."""
    return GateStatus(
        state=sleep_state.gate,
        epoch=sleep_state.epoch,
        port=port,
        hold_seconds=_hold_seconds(hold or Hold(), wakes),
        cluster=cluster or None,
        models=list(models),
        reason=sleep_state.reason[:REASON_LIMIT] or None,
    )


def kept_gate(status: Mapping[str, Any]) -> GateStatus | None:
    """The gate as the status says it, to be said again; None when it does not, or not in its form."""
    try:
        return GateStatus.model_validate(status.get("gate"))
    except ValidationError:
        return None


def wakes_before(status: Mapping[str, Any]) -> WakeStatus | None:
    """The history of wakes as the status says it; None when it does not, or not in its form."""
    try:
        return WakeStatus.model_validate(status.get("wake"))
    except ValidationError:
        return None


def wake_under_way(status: Mapping[str, Any]) -> bool:
    """Whether a wake has been begun, and requests have not been let through since."""
    wakes = wakes_before(status)
    return wakes is not None and wakes.under_way


def node_wait(wakes: WakeStatus | None, gate: GateStatus | None, now: datetime) -> timedelta | None:
    """How much longer a wake that is under way may wait for nodes: for as long as its requests are held.

    None: no wake is under way, or it has waited that long.
    """
    if wakes is None or not wakes.under_way or gate is None:
        return None
    left = (parse_time(wakes.started_at) or now) + timedelta(seconds=gate.hold_seconds) - now
    return left if left > timedelta(0) else None


def overdue(wakes: WakeStatus | None, gate: GateStatus | None, now: datetime) -> bool:
    """Whether a wake has lasted longer than its requests were held: the first of them have been refused."""
    return wakes is not None and wakes.under_way and node_wait(wakes, gate, now) is None


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
