"""What the status of a workload with one gate says: gate, phase, savings; and what stays of one before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from daybreak.api.common.conditions import Condition, ConditionType, Reason
from daybreak.api.common.unstructured import at, condition, parse_time, text, whole, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import GateBackend, GateStatus, Phase, WakePhases
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.controller.conditions import Made, dated
from daybreak.gates import idle_policy
from daybreak.gates.ledger import Accelerators, count, savings_before
from daybreak.gates.room import room_status, yielded_to
from daybreak.gates.sleep_policy import kept_gate, model_gate
from daybreak.gates.state_machine import SleepState
from daybreak.gates.wake_history import wake_history
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.replica_size import accelerators_awake
from daybreak.workloads import conditions
from daybreak.workloads.observed import OneGate
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.view import View

AnyView = View[Any, Any]
Steps = Callable[[AnyView, datetime, WakePhases | None], WakePhases | None]
"""The steps of a wake that are done, from its beginning, and from what stands there already."""


@dataclass(frozen=True)
class Common:
    """What is the same in every such status."""

    observed_generation: int
    phase: Phase
    phase_since: str | None
    access: Literal["Open", "ApiKeys"] | None
    gate: GateStatus | None
    savings: SavingsStatus | None
    conditions: list[Condition]

    def fields(self) -> dict[str, Any]:
        """Its fields, by their names."""
        return dict(vars(self))


def common(
    view: AnyView,
    outcome: Outcome,
    backends: Sequence[GateBackend],
    steps: Steps,
) -> Common:
    """Of one that can be read.

    Args:
        view: How it is.
        outcome: What was decided of it.
        backends: Pods that requests go to.
        steps: The steps of a wake that are done.
    """
    seen, subject = view.seen, view.subject
    state, made = outcome.sleep, conditions.made(view, outcome)
    phase = state.phase if state is not None else _phase(view, made)
    since = parse_time(text(seen.status.get("phaseSince"))) if seen.status.get("phase") == phase else None
    generation = max(0, subject.generation)
    return Common(
        observed_generation=generation,
        phase=phase,
        phase_since=written(since or seen.now),
        access=_access(view) if state is not None else None,
        gate=_gate(view, state, backends, steps),
        savings=_savings(view, state),
        conditions=dated(seen.status, made, seen.now, generation),
    )


def as_before(seen: OneGate[Any], reason: Reason, message: str) -> Common:
    """Of one that is being deleted, or cannot be read: what was there before stays."""
    stalled = reason is Reason.INVALID_SPEC
    before, generation = seen.status, max(0, whole(at(seen.manifest, "metadata").get("generation")))
    active = condition(before, ConditionType.ACTIVE).get("status") == "True"
    made = [
        Made(ConditionType.READY, False, reason, message),
        Made(ConditionType.ACTIVE, active, reason, message),
        Made(ConditionType.SCHEDULABLE, None, reason, message),
        Made(ConditionType.RECONCILING, not stalled, reason, message),
        Made(ConditionType.STALLED, stalled, reason, message),
    ]
    access = text(before.get("access"))
    return Common(
        observed_generation=generation,
        phase=Phase.FAILED if stalled else Phase.DRAINING,
        phase_since=text(before.get("phaseSince")) or None,
        access="ApiKeys" if access == "ApiKeys" else "Open" if access else None,
        gate=kept_gate(before),
        savings=savings_before(before),
        conditions=dated(before, made, seen.now, generation),
    )


def pod_steps(
    view: AnyView, pods: Sequence[PodView], started: datetime, before: WakePhases | None
) -> WakePhases | None:
    """The steps of worker pods, from the one that was first to do each."""
    found = {}
    for name, kind in (("worker_scheduled", "PodScheduled"), ("worker_ready", "Ready")):
        moments = [moment for pod in pods if pod.counts and (moment := since(pod, kind)) is not None]
        if moments:
            found[name] = seconds_after(started, min(moments))
    done = (before or WakePhases()).model_copy(update=found)
    return done if done.model_dump(exclude_none=True) else None


def seconds_after(started: datetime, moment: datetime) -> int:
    """Whole seconds from the beginning of a wake."""
    return max(0, round((moment - started).total_seconds()))


def since(pod: PodView, kind: str) -> datetime | None:
    """Since when a condition of a pod has been true; None: it is not."""
    found: Mapping[str, Any] = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None


def _phase(view: AnyView, made: list[Made]) -> Phase:
    """One word on one without a gateway."""
    holds: Mapping[str, bool | None] = {each.type: each.holds for each in made}
    if holds[ConditionType.READY]:
        return Phase.UPDATING if view.updating else Phase.AWAKE
    return Phase.FAILED if holds[ConditionType.STALLED] else Phase.WAKING


def _access(view: AnyView) -> Literal["Open", "ApiKeys"]:
    access = view.subject.spec.access
    return "ApiKeys" if access and access.api_keys else "Open"


def _gate(
    view: AnyView, state: SleepState | None, backends: Sequence[GateBackend], steps: Steps
) -> GateStatus | None:
    seen, subject = view.seen, view.subject
    if seen.gateway is None or state is None or seen.sleep_state is None:
        return None
    before = seen.gate.wake if seen.gate is not None else None
    wake = wake_history(before, seen.sleep_state, state, seen.now, partial(steps, view))
    looked = idle_policy.Seen(seen.traffic, wake, seen.now)
    idle = idle_policy.idle_status(seen.gate, subject.spec.sleep, seen.sleep_state, state, looked)
    after = _after(view, state)
    traffic = seen.traffic
    room = room_status(seen.gate, state, seen.own_turn, traffic, has_room=view.has_room, now=seen.now)
    gate = model_gate(
        seen.gate_name,
        state,
        subject.spec.hold,
        wake,
        (),
        after=after,
        idle=idle,
        room=room,
        yielded_to=yielded_to(seen.gate, state, seen.own_turn),
    )
    return GateStatus(
        port=seen.gateway.port, protocol=subject.protocol, backends=list(backends), models=[gate]
    )


def _after(view: AnyView, state: SleepState) -> tuple[str, ...]:
    """Who comes before it while it is on the way up, or is asked in its sleep and has had its turn."""
    turn = view.seen.own_turn
    if state.asleep is not None and turn.gives_way_to:
        return (turn.gives_way_to,)
    return tuple(turn.after) if state.phase is Phase.WAKING and state.asleep is None else ()


def _savings(view: AnyView, state: SleepState | None) -> SavingsStatus | None:
    """Accelerator seconds; None without accelerators, or without a gateway."""
    if state is None:
        return None
    before, held = savings_before(view.seen.status), view.gpus
    waited_for = min(held, view.seen.own_turn.waited_for)
    if state.asleep is not None and state.phase is not Phase.REPLACING:
        workload = view.subject.workload
        least = sum(accelerators_awake(workload, model) for model in workload.models)
        now = Accelerators(held=held, given_back=max(0, least - held), waited_for=waited_for)
    elif state.gate is GateState.OPEN:
        now = Accelerators(held=held, waited_for=waited_for)
    else:
        now = Accelerators(waking=held)
    if before is None and now == Accelerators():
        return None
    return count(before, now, view.seen.now)
