"""What is true of a workload with one gate: each condition, by what is seen and was decided of its sleep.

The words hold no time and no count of attempts, so that the same state is the same status, byte by byte.
"""

from collections.abc import Callable
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import condition
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.controller.conditions import Made, Truth
from daybreak.gates.gateways.gateway_rejected import unheard
from daybreak.gates.state_machine import SleepState
from daybreak.problems.problem import Problem
from daybreak.ray.views.ray_pods import HEAD
from daybreak.rollouts import words
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.words import Said
from daybreak.workloads import routing
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.rolled import Rolled
from daybreak.workloads.view import View

AnyView = View[Any, Any]


def made(view: AnyView, outcome: Outcome) -> list[Made]:
    """All conditions."""
    blocked, rolled, stalled = outcome.blocked, outcome.rolled, view.stalled
    state = outcome.gates.states.get(view.seen.gate_name)
    found = ready(view, blocked, state)
    reconciling, acts = _reconciling(view, stalled, state, found), _stalled(stalled)
    if rolled is not None and blocked is None:
        reconciling = _with(words.reconciling, rolled, reconciling)
        acts = _with(words.stalled, rolled, acts)
    return [found, _active(view, state), view.schedulable, reconciling, acts]


def ready(view: AnyView, blocked: Problem | None, state: SleepState | None) -> Made:
    """Ready: whether an answer comes, be it after a wake."""
    seen, was = view.seen, condition(view.seen.status, ConditionType.READY).get("status")
    if blocked is not None:
        kept = "; what was applied before stays as it is" if view.made else ""
        return _ready(False, blocked.reason, f"{blocked.message}{kept}")
    if state is None or seen.gateway is None:
        return _awake(view)
    if state.phase is Phase.REPLACING:
        return _replacing(state, came_from_ready=was == "True")
    if state.asleep is not None and state.gate is GateState.FAILED:
        return _ready(False, Reason.ASLEEP, state.reason)
    if state.phase is Phase.FAILED:
        return _awake(view)
    traffic = seen.traffic
    if traffic.acknowledged < 0:
        missing = unheard(seen.gateway.rejected)
        return _ready(False if was in ("True", "False") else None, Reason.GATEWAY_MISSING, missing)
    if state.asleep is not None:
        said = "asleep: a request wakes it, and is answered when it is up"
        return _ready(True, Reason.ASLEEP, said)
    if state.phase is Phase.DRAINING:
        return _ready(True, Reason.ANSWERING, "falling asleep: a request turns it round")
    if not view.answering:
        return _waking(view, state, came_from_ready=was == "True")
    if (
        state.gate is GateState.OPEN
        and not traffic.routed
        and not routing.is_searching(state, traffic, seen.now)
    ):
        said = f"its {view.noun} answers, but no gateway reaches its pods: requests are held; see whether a "
        unknown = was not in ("True", "False")
        return _ready(None if unknown else False, Reason.NOT_ROUTED, f"{said}NetworkPolicy is in the way")
    return _awake(view)


def _awake(view: AnyView) -> Made:
    if view.answering:
        return _ready(True, Reason.ANSWERING, f"the {view.noun} answers at {view.url}")
    if view.problem is not None:
        return _ready(False, view.problem.reason, view.problem.message)
    if view.silent:
        return _ready(False, Reason.NOT_ANSWERING, view.silent)
    standing = condition(view.seen.status, ConditionType.READY)
    if view.ask and standing.get("reason") == Reason.NOT_ANSWERING:
        # It is being asked again; until it says something else this is true.
        return _ready(False, Reason.NOT_ANSWERING, str(standing.get("message")))
    return _ready(None, Reason.PROGRESSING, view.doing)


def _replacing(state: SleepState, *, came_from_ready: bool) -> Made:
    """Its pods are being replaced. It stays ready, if it was: a request is held, and answered."""
    doing = "its pods go, and others come" if state.asleep is not None else "requests in progress end"
    said = f"its pods are being replaced, and requests are held until the new ones answer: {doing}"
    return _ready(came_from_ready, Reason.REPLACING, said)


def _waking(view: AnyView, state: SleepState, *, came_from_ready: bool) -> Made:
    said = _awake(view)
    if state.gate is not GateState.CLOSED:
        return said
    if view.overdue and view.seen.gate is not None:
        held = view.seen.gate.hold_seconds
        told = f"the wake has taken longer than requests are held, which is {held} s: {said.message}"
        return _ready(False, Reason.WAKE_OVERDUE, told)
    # In the decision to wake itself it still sleeps.
    if came_from_ready and (view.wakes_from_sleep or view.seen.asleep):
        doing = "its pods are asked for" if view.seen.asleep else said.message
        return _ready(True, Reason.WAKING, f"waking, requests are held until it is up: {doing}")
    return said


def _ready(holds: bool | None, reason: Reason, message: str) -> Made:
    return Made(ConditionType.READY, holds, reason, message)


def _active(view: AnyView, state: SleepState | None) -> Made:
    # A pod uses nothing before it is on a node, and a Ray head uses nothing that is scarce: it counts only if
    # no other pod is expected.
    waits = view.in_line
    there = [pod for pod in view.pods if pod.counts]
    others = any(pod.role != HEAD for pod in there)
    head_stays = waits or others or (state is not None and state.asleep is SleepDepth.WORKERS)
    if any(pod.placed and not (head_stays and pod.role == HEAD) for pod in there):
        return Made(ConditionType.ACTIVE, True, Reason.AWAKE, "its pods are there")
    if state is not None and state.asleep is not None:
        said = "it has no pod; a request wakes it"
        if any(pod.counts for pod in view.pods):
            said = "of its pods only the Ray head is there; a request wakes it"
        return Made(ConditionType.ACTIVE, False, Reason.ASLEEP, said)
    if waits:
        return Made(ConditionType.ACTIVE, False, Reason.WAITING_FOR_ACCELERATORS, view.doing)
    said = "its pods wait for a node" if others else "no pod is there yet"
    return Made(ConditionType.ACTIVE, False, Reason.STARTING, said)


def _reconciling(view: AnyView, stalled: Problem | None, state: SleepState | None, ready: Made) -> Made:
    def said(holds: bool, reason: str, message: str) -> Made:
        return Made(ConditionType.RECONCILING, holds, reason, message)

    if stalled is not None:
        return said(False, stalled.reason, "stopped until somebody acts: see Stalled")
    if state is not None and state.phase is Phase.REPLACING:
        return said(True, Reason.REPLACING, ready.message)
    if state is not None and state.asleep is not None:
        return said(False, Reason.STEADY, "asleep, as it should be")
    if state is not None and ready.holds and state.phase in (Phase.DRAINING, Phase.WAKING):
        # What traffic brings about is no change of the spec: nobody has to wait for its end.
        return said(False, Reason.STEADY, ready.message)
    if not ready.holds:
        return said(True, Reason.PROGRESSING, ready.message)
    if view.updating:
        why = f": {view.problem.message}" if view.problem is not None else ""
        return said(True, Reason.UPDATING, f"other pods take the place of those that run{why}")
    if view.missing:
        why = f", {view.problem.message}" if view.problem is not None else ""
        return said(True, Reason.PROGRESSING, f"{view.missing}{why}")
    return said(False, Reason.STEADY, "everything is as the spec says")


def _with(add: Callable[[History, RolloutState, Said], Said], rolled: Rolled, made: Made) -> Made:
    """A condition with what a change adds to it."""
    truth: Truth = "True" if made.holds else "False"
    status, reason, message = add(rolled.history, rolled.state, (truth, Reason(made.reason), made.message))
    return Made(made.type, status == "True", reason, message)


def _stalled(stalled: Problem | None) -> Made:
    if stalled is not None:
        return Made(ConditionType.STALLED, True, stalled.reason, stalled.message)
    return Made(ConditionType.STALLED, False, Reason.STEADY, "nobody has to act")
