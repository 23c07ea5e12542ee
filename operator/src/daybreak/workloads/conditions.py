"""The conditions of a workload behind a gateway that holds requests.

Messages contain no time and no number of attempts, so that an unchanged state gives the identical status.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from daybreak.api.common.condition_list import Made as Condition
from daybreak.api.common.condition_list import made_of
from daybreak.api.common.conditions import ConditionType, Reason, ShortCondition
from daybreak.api.common.moments import Moments
from daybreak.api.common.unstructured import condition
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.gates import sleep_policy
from daybreak.gates.gateway_rejected import unheard
from daybreak.gates.sleep_state import SleepState
from daybreak.problems.problem import Problem
from daybreak.rollouts import words
from daybreak.scheduling.schedulable import schedulable as schedulable_condition
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.observed import GatewayView, Observed
from daybreak.workloads.rolled import Rolled

States = Mapping[str, SleepState]
"""Decided sleep state of each gate, by the gate's name."""
FINDING = timedelta(seconds=10)
"""Grace period in which a workload stays ready although no gateway reaches it.

After the gate opens, the gateways must discover its pods: they receive the pods with the gate or just before
it, and check them every 250 ms. A busy Serve proxy may miss two of these checks.
"""
_HELD = "requests are held until one does"
_STALLED = "stopped until the problem in Stalled is fixed"


def ready(view: Assessed, states: States, moments: Moments) -> ShortCondition:
    """Return `Ready`: whether requests are answered, possibly after a wake."""
    if view.blocked is not None:
        kept = "; objects that were applied before stay unchanged" if view.made else ""
        return "False", view.blocked.reason, f"{view.blocked.message}{kept}"
    observed: Observed[Any] = view.observed
    if observed.gateway is None or observed.gateway.past or not states:
        return view.answers(list(observed.subject.sleeps) if observed.subject is not None else ())
    up = [gate for gate, state in states.items() if state.asleep is None]
    if any(state.phase is Phase.REPLACING for state in states.values()):
        return _replacing(_was(view), up, states)
    message = view.answers(up) if up else _asleep(states)
    asleep = [gate for gate in states if gate not in up]
    if up and asleep and message[0] == "True":
        message = message[0], message[1], f"{message[2]}; asleep until a request arrives: {', '.join(asleep)}"
    forced = next((state for state in states.values() if _is_forced(state)), None)
    if not up and forced is not None:
        return "False", Reason.ASLEEP, forced.reason
    if any(states[gate].gate is GateState.FAILED or states[gate].phase is Phase.FAILED for gate in up):
        return message
    if all(observed.gateway.of(gate).acknowledged < 0 for gate in states):
        return _not_true(view), Reason.GATEWAY_NOT_REPORTING, unheard(observed.gateway.rejected)
    if up and all(states[gate].phase is Phase.DRAINING for gate in up):
        return "True", Reason.SERVING, "going to sleep; a new request cancels this"
    if message[0] != "True":
        return _waking(view, up, states, message)
    return _not_routed(view, observed.gateway, up, states, message, moments)


def reconciling(
    view: Assessed, states: States, ready: ShortCondition, plain: ShortCondition
) -> ShortCondition:
    """Return `Reconciling`: whether a change of the spec is in progress.

    `plain` is the value that follows from the pods alone.
    """
    if view.to_act_on:
        return "False", view.to_act_on[0].reason, _STALLED
    phase = sleep_policy.phase(states.values()) if states else None
    if phase is Phase.ASLEEP:
        return "False", Reason.RECONCILED, "asleep, as the spec and the traffic require"
    if phase is Phase.REPLACING:
        return "True", Reason.REPLACING, ready[2]
    if ready[0] == "True" and phase in (Phase.DRAINING, Phase.WAKING):
        # Traffic, not the spec, causes this transition: clients of the condition need not wait for its end.
        return "False", Reason.RECONCILED, ready[2]
    return plain


def stalled(found: Sequence[Problem]) -> ShortCondition:
    """Return `Stalled` from the problems that require action."""
    if found:
        return "True", found[0].reason, "; ".join(problem.message for problem in found)
    return "False", Reason.RECONCILED, "no action required"


def made(
    view: Assessed,
    rolled: Rolled | None,
    ready: ShortCondition,
    active: ShortCondition,
    going: ShortCondition,
) -> list[Condition]:
    """Return all conditions of a workload.

    Args:
        view: The workload.
        rolled: State of its rollout.
        ready: `Ready`.
        active: `Active`.
        going: `Reconciling`, without the rollout.
    """
    observed: Observed[Any] = view.observed
    acts = stalled(view.to_act_on)
    if rolled is not None and view.blocked is None:
        going = words.reconciling(rolled.history, rolled.state, going)
        acts = words.stalled(rolled.history, rolled.state, acts)
    valid, known = not observed.problems, observed.nodes is not None
    fits = schedulable_condition(observed.misfits, view.kind, view.fits, valid=valid, known=known)
    return [
        made_of(ConditionType.READY, ready),
        made_of(ConditionType.ACTIVE, active),
        made_of(ConditionType.SCHEDULABLE, fits),
        made_of(ConditionType.RECONCILING, going),
        made_of(ConditionType.STALLED, acts),
    ]


def _was(view: Assessed) -> str:
    """Return the previous status of `Ready`."""
    return str(condition(view.observed.status, ConditionType.READY).get("status"))


def _not_true(view: Assessed) -> Any:
    """Return `False` if `Ready` was known before; otherwise `Unknown`."""
    return "False" if _was(view) in ("True", "False") else "Unknown"


def _replacing(was: str, up: Sequence[str], states: States) -> ShortCondition:
    """Return `Ready` during a replacement of the pods.

    A ready workload stays ready, because requests are held until the new pods answer.
    """
    gone = all(states[gate].phase is not Phase.REPLACING for gate in up)
    doing = "old pods terminate and new pods start" if gone else "requests in flight finish"
    message = f"pods are being replaced, and requests are held until the new pods serve: {doing}"
    return ("True" if was == "True" else "False"), Reason.REPLACING, message


def _asleep(states: States) -> ShortCondition:
    which = "its model serves" if len(states) > 1 else "it serves"
    return "True", Reason.ASLEEP, f"asleep; a request wakes it and is answered once {which}"


def _is_forced(state: SleepState) -> bool:
    """Return True if an administrator keeps the model asleep, so that no request wakes it."""
    return state.phase is Phase.ASLEEP and state.gate is GateState.FAILED


def _waking(view: Assessed, up: Sequence[str], states: States, report: ShortCondition) -> ShortCondition:
    """Return `Ready` while some models do not answer yet.

    A workload that wakes from sleep stays ready, if it was, while requests are held for it. A workload that
    has never answered is not ready before its first answer.
    """
    observed: Observed[Any] = view.observed
    assessed = view.assess()
    silent = [gate for gate in up if not assessed[gate].answering]
    closed = [gate for gate in silent if states[gate].gate is GateState.CLOSED]
    before = {gate: observed.gates[gate] for gate in closed if gate in observed.gates}
    overdue = [gate for gate in before.values() if sleep_policy.overdue(gate, observed.now)]
    if overdue:
        # The wake continues, and requests are held for the same time again, but the condition must show the
        # delay.
        held = max(gate.hold_seconds for gate in overdue)
        reported = f"the wake exceeds the hold timeout of {held} s: {report[2]}"
        return "False", report[1] if report[0] == "False" else Reason.WAKE_TIMED_OUT, reported
    from_sleep = len(closed) == len(silent) and all(_is_from_sleep(observed, each) for each in silent)
    if _was(view) == "True" and from_sleep:
        # The decision that starts the wake still observes the models asleep.
        asleep = all(observed.sleep_states[gate].asleep is not None for gate in silent)
        doing = "its pods are being created" if asleep else report[2]
        return "True", Reason.WAKING, f"waking, requests are held until it serves: {doing}"
    return report


def _is_from_sleep(observed: Observed[Any], gate: str) -> bool:
    """Return True if a model wakes from sleep, or is about to."""
    before = observed.gates.get(gate)
    wakes = before is not None and before.wake is not None and before.wake.under_way
    return wakes or observed.sleep_states[gate].asleep is not None


def _not_routed(
    view: Assessed,
    gateway: GatewayView,
    up: Sequence[str],
    states: States,
    report: ShortCondition,
    moments: Moments,
) -> ShortCondition:
    """Return `Ready` if all models answer the operator's probes, but no gateway reaches one of them.

    The probes bypass the gateways.
    """
    unseen = [gate for gate in up if states[gate].gate is GateState.OPEN and not gateway.of(gate).routed]
    if not unseen:
        return report
    was_ready, opened = _was(view) == "True", max(states[gate].since for gate in unseen)
    if not moments.reached(opened + FINDING):
        reported = f"up, and no gateway has found {view.reached} yet: {_HELD}"
        return (
            ("True", Reason.WAKING, reported)
            if was_ready
            else (_not_true(view), Reason.PROGRESSING, reported)
        )
    lost = moments.now - max(gateway.of(gate).unrouted for gate in unseen)
    if was_ready and not moments.reached(lost + FINDING):
        return report
    reported = (
        f"{view.answerer}, but no gateway pod of the namespace reaches {view.reached}: {_HELD}; "
        "check whether a NetworkPolicy blocks it"
    )
    return _not_true(view), Reason.BACKEND_UNREACHABLE, reported
