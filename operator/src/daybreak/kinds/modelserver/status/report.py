"""The status of a ModelServer, put together from what was decided."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import at, condition, parse_time, text, whole, written
from daybreak.api.gates.gate_status import GateBackend, GateState, GateStatus, Phase, WakePhases
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.controller.conditions import Made, dated
from daybreak.gates import idle_policy
from daybreak.gates.ledger import Accelerators, count, savings_before
from daybreak.gates.sleep_policy import kept_gate, model_gate
from daybreak.gates.state_machine import SleepState
from daybreak.gates.wake_history import wake_history
from daybreak.kinds.modelserver.decide import autoscaling
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.status import conditions
from daybreak.problems.problem import Problem
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.replica_size import accelerators_awake


def status(view: View, blocked: Problem | None, state: SleepState | None) -> ModelServerStatus:
    """The status as it should be."""
    seen, server = view.seen, view.server
    made = conditions.made(view, blocked, state)
    phase = state.phase if state is not None else _phase(view, made)
    since = parse_time(text(seen.status.get("phaseSince"))) if seen.status.get("phase") == phase else None
    asleep = state is not None and state.asleep is not None
    return ModelServerStatus(
        observed_generation=max(0, server.generation),
        phase=phase,
        phase_since=written(since or seen.now),
        access=_access(server) if state is not None else None,
        gate=_gate(view, state),
        url=names.url(server.name, server.namespace),
        replicas=len(view.ready),
        autoscaling=autoscaling.scaled(view, asleep=asleep),
        gpus=view.gpus,
        savings=_savings(view, state),
        selector=f"{names.SERVICE_LABEL}={server.owner}",
        answered=None if asleep else view.answered or None,
        conditions=dated(seen.status, made, seen.now, max(0, server.generation)),
    )


def as_before(seen: Observed, reason: Reason, message: str = "it is being deleted") -> ModelServerStatus:
    """The status of one that is being deleted, or cannot be read: what was there before stays."""
    stalled = reason is Reason.INVALID_SPEC
    before, generation = seen.status, max(0, whole(at(seen.manifest, "metadata").get("generation")))
    active = condition(before, ConditionType.ACTIVE).get("status") == "True"
    made = [
        Made(ConditionType.READY, False, reason, message),
        Made(ConditionType.ACTIVE, active, reason, message),
        Made(ConditionType.RECONCILING, not stalled, reason, message),
        Made(ConditionType.STALLED, stalled, reason, message),
    ]
    access = text(before.get("access"))
    return ModelServerStatus(
        observed_generation=generation,
        phase=Phase.FAILED if stalled else Phase.DRAINING,
        phase_since=text(before.get("phaseSince")) or None,
        access="ApiKeys" if access == "ApiKeys" else "Open" if access else None,
        gate=kept_gate(before),
        url=text(before.get("url")) or None,
        replicas=whole(before.get("replicas")),
        autoscaling=autoscaling.as_before(before),
        gpus=whole(before.get("gpus")),
        savings=savings_before(before),
        selector=text(before.get("selector")) or None,
        answered=text(before.get("answered")) or None,
        conditions=dated(before, made, seen.now, generation),
    )


def _phase(view: View, made: list[Made]) -> Phase:
    """One word on one without a gateway."""
    holds: Mapping[str, bool | None] = {each.type: each.holds for each in made}
    if holds[ConditionType.READY]:
        return Phase.UPDATING if view.updating else Phase.AWAKE
    return Phase.FAILED if holds[ConditionType.STALLED] else Phase.WAKING


def _access(server: ModelServer) -> Literal["Open", "ApiKeys"]:
    return "ApiKeys" if server.spec.access and server.spec.access.api_keys else "Open"


def _gate(view: View, state: SleepState | None) -> GateStatus | None:
    seen, server = view.seen, view.server
    if seen.gateway is None or state is None or seen.sleep_state is None:
        return None
    before = seen.gate.wake if seen.gate is not None else None
    steps = partial(_steps, view)
    wake = wake_history(before, seen.sleep_state, state, seen.now, steps)
    looked = idle_policy.Seen(seen.gateway.traffic, wake, seen.now)
    idle = idle_policy.idle_status(seen.gate, server.spec.sleep, seen.sleep_state, state, looked)
    after = _after(view, state)
    gate = model_gate(server.spec.model.name, state, server.spec.hold, wake, (), after=after, idle=idle)
    profile = server.profile
    pods = GateBackend(cluster=server.owner, port=profile.port, health_path=profile.readiness_path)
    return GateStatus(port=seen.gateway.port, backends=[pods], models=[gate])


def _after(view: View, state: SleepState) -> tuple[str, ...]:
    """Who comes before it while it is on the way up, or is asked in its sleep and has had its turn."""
    turn = view.seen.turn
    if state.asleep is not None and turn.gives_way_to:
        return (turn.gives_way_to,)
    return turn.after if state.phase is Phase.WAKING and state.asleep is None else ()


def _steps(view: View, started: datetime, before: WakePhases | None) -> WakePhases | None:
    """The steps of a wake that are done, from the pod that was first to do each."""
    found: dict[str, int] = {}
    pods = [pod for pod in view.pods if pod.counts]
    for step, kind in (("worker_scheduled", "PodScheduled"), ("worker_ready", "Ready")):
        moments = [moment for pod in pods if (moment := _since(pod, kind)) is not None]
        if moments:
            found[step] = max(0, round((min(moments) - started) / timedelta(seconds=1)))
    done = (before or WakePhases()).model_copy(update=found)
    return done if done.model_dump(exclude_none=True) else None


def _since(pod: PodView, kind: str) -> datetime | None:
    found: Mapping[str, Any] = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None


def _savings(view: View, state: SleepState | None) -> SavingsStatus | None:
    """Accelerator seconds; None without accelerators, or without a gateway."""
    if state is None:
        return None
    before, held = savings_before(view.seen.status), view.gpus
    if state.asleep is not None:
        least = accelerators_awake(view.server.workload, view.server.model)
        now = Accelerators(held=held, given_back=max(0, least - held))
    elif state.gate is GateState.OPEN:
        now = Accelerators(held=held)
    else:
        now = Accelerators(waking=held)
    if before is None and now == Accelerators():
        return None
    return count(before, now, view.seen.now)
