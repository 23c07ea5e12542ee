"""Conditions of a service behind a gateway, where a request may wait for its answer."""

from collections.abc import Mapping, Sequence

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.gates import sleep_policy
from daybreak.gates.gateways.gateway_rejected import unheard
from daybreak.gates.state_machine import SleepState
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.status import conditions
from daybreak.kinds.llmservice.status.condition_list import Said, Truth
from daybreak.problems.problem import Problem
from daybreak.workloads import routing
from daybreak.workloads.observed import GatewayView

_HELD = "requests are held until one does"


def ready(
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    blocked: Problem | None,
    gateway: GatewayView,
    states: Mapping[str, SleepState],
) -> Said:
    """The condition. Of models that sleep nothing is asked but that a request can wake them."""
    up = [model for model in models if states[model.name].asleep is None]
    if any(state.phase is Phase.REPLACING for state in states.values()) and blocked is None:
        return _replacing(snapshot, up, states)
    said = conditions.ready(snapshot, up, blocked) if up else _asleep(snapshot, states)
    asleep = [model.name for model in models if states[model.name].asleep is not None]
    if up and asleep and said[0] == "True":
        said = said[0], said[1], f"{said[2]}; asleep until a request comes: {', '.join(asleep)}"
    refused = [states[model.name] for model in up if states[model.name].gate is GateState.FAILED]
    forced = next((state for state in states.values() if _forced(state)), None)
    if not up and forced is not None:
        return "False", Reason.ASLEEP, forced.reason
    if refused or any(states[model.name].phase is Phase.FAILED for model in up):
        return said
    if all(gateway.of(model.name).acknowledged < 0 for model in models):
        was = snapshot.before.ready.get("status") in ("True", "False")
        missing = unheard(gateway.rejected)
        return ("False" if was else "Unknown"), Reason.GATEWAY_MISSING, missing
    if up and all(states[model.name].phase is Phase.DRAINING for model in up):
        return "True", Reason.ANSWERING, "falling asleep: a request turns it round"
    if said[0] != "True":
        return _waking(snapshot, up, states, said)
    return _not_routed(snapshot, gateway, up, states, said)


def _replacing(snapshot: Snapshot, up: Sequence[ModelHealth], states: Mapping[str, SleepState]) -> Said:
    """Its pods are being replaced. It stays ready, if it was: a request is held, and answered."""
    status = snapshot.before.ready.get("status")
    gone = all(states[model.name].phase is not Phase.REPLACING for model in up)
    doing = "its pods go, and others come" if gone else "requests in progress end"
    said = f"its pods are being replaced, and requests are held until the new ones answer: {doing}"
    return ("True" if status == "True" else "False"), Reason.REPLACING, said


def _asleep(snapshot: Snapshot, states: Mapping[str, SleepState]) -> Said:
    which = "its model is" if len(states) > 1 else "it is"
    return "True", Reason.ASLEEP, f"asleep: a request wakes it, and is answered when {which} up"


def _forced(state: SleepState) -> bool:
    """Whether a person keeps it asleep, so that no request wakes it."""
    return state.phase is Phase.ASLEEP and state.gate is GateState.FAILED


def _waking(
    snapshot: Snapshot, up: Sequence[ModelHealth], states: Mapping[str, SleepState], said: Said
) -> Said:
    """What does not answer yet may be on its way up from sleep: for as long as requests are held for it the
    service stays ready, if it was. One that has never answered is not ready before it has."""
    silent = [model for model in up if not model.answering]
    closed = [model for model in silent if states[model.name].gate is GateState.CLOSED]
    overdue = [model.name for model in closed if snapshot.overdue(model.name)]
    if overdue:
        return _overdue(snapshot, overdue, said)
    was_ready = snapshot.before.ready.get("status") == "True"
    if was_ready and len(closed) == len(silent) and all(_from_sleep(snapshot, each) for each in silent):
        # In the decision to wake itself the models still sleep.
        asleep = all(snapshot.sleeps(model.name) for model in silent)
        doing = "its worker pods are asked for" if asleep else said[2]
        return "True", Reason.WAKING, f"waking, requests are held until it is up: {doing}"
    return said


def _from_sleep(snapshot: Snapshot, model: ModelHealth) -> bool:
    """Whether a model is on the way up from sleep, or just about to."""
    return snapshot.wakes_from_sleep(model.name) or snapshot.sleeps(model.name)


def _overdue(snapshot: Snapshot, models: Sequence[str], said: Said) -> Said:
    """The wake goes on, and requests are held for as long again, but somebody ought to know."""
    status, reason, doing = said
    held = max(snapshot.before.gates[model].hold_seconds for model in models)
    told = f"the wake has taken longer than requests are held, which is {held} s: {doing}"
    return "False", reason if status == "False" else Reason.WAKE_OVERDUE, told


def _not_routed(
    snapshot: Snapshot,
    gateway: GatewayView,
    up: Sequence[ModelHealth],
    states: Mapping[str, SleepState],
    said: Said,
) -> Said:
    """The condition of models that all answer the operator, which asks past the gateways, where no gateway
    sees one of them."""
    unseen = [
        model.name
        for model in up
        if states[model.name].gate is GateState.OPEN and not gateway.of(model.name).routed
    ]
    if not unseen:
        return said
    was = snapshot.before.ready.get("status")
    opened = max(states[model].since for model in unseen)
    if was == "True" and snapshot.now - opened < routing.FINDING:
        return "True", Reason.WAKING, f"up, and no gateway has found the Ray head yet: {_HELD}"
    if was == "True" and max(gateway.of(model).unrouted for model in unseen) < routing.FINDING:
        return said
    told = (
        f"the models answer, but no gateway of the namespace reaches the Ray head: {_HELD}; "
        "see whether a NetworkPolicy is in the way"
    )
    return unready, Reason.NOT_ROUTED, told


def reconciling(states: Mapping[str, SleepState], ready: Said, models: Said) -> Said:
    """The condition Reconciling of a service that is not stalled, from what the models alone make it."""
    phase = sleep_policy.phase(states.values())
    if phase is Phase.ASLEEP:
        return "False", Reason.STEADY, "asleep, as it should be"
    if phase is Phase.REPLACING:
        return "True", Reason.REPLACING, ready[2]
    if ready[0] == "True" and phase in (Phase.DRAINING, Phase.WAKING):
        # What traffic brings about is no change of the spec: nobody has to wait for its end.
        return "False", Reason.STEADY, ready[2]
    return models
