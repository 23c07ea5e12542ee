"""Conditions of a service behind a gateway, where a request may wait for its answer."""

from datetime import datetime, timedelta

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.gates.state_machine import SleepState
from daybreak.gates.traffic import Traffic
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.status.condition_list import Said

FINDING = timedelta(seconds=10)
"""How long a service that was ready stays so although no gateway reaches it. After the gate has opened they
have to find the Ray head: they hear of a new one with the gate, or just before it, and look every 250 ms. And
a busy Serve proxy may miss two of their looks."""
_HELD = "requests are held until one does"


def ready(snapshot: Snapshot, traffic: Traffic, sleep_state: SleepState, models: Said) -> Said:
    """The condition, from what it would be by the models alone."""
    if sleep_state.phase is Phase.ASLEEP and sleep_state.gate is GateState.FAILED:
        return "False", Reason.ASLEEP, sleep_state.reason
    if sleep_state.phase is Phase.FAILED or sleep_state.gate is GateState.FAILED:
        return models
    if traffic.acknowledged < 0:
        was = snapshot.before.ready.get("status") in ("True", "False")
        said = "no gateway of the namespace is heard: see its Deployment daybreak-gateway"
        return ("False" if was else "Unknown"), Reason.GATEWAY_MISSING, said
    if sleep_state.asleep is not None:
        return "True", Reason.ASLEEP, "asleep: a request wakes it, and is answered when it is up"
    if sleep_state.phase is Phase.DRAINING:
        return "True", Reason.ANSWERING, "falling asleep: a request turns it round"
    if snapshot.before.overdue and sleep_state.gate is GateState.CLOSED and models[0] != "True":
        return _overdue(snapshot, models)
    if (
        sleep_state.gate is GateState.CLOSED
        and snapshot.before.ready.get("status") == "True"
        and models[0] != "True"
    ):
        # Only after sleep: a service that has never answered is not ready before it has.
        # In the decision to wake itself the models still sleep.
        doing = "its worker pods are asked for" if snapshot.asleep else models[2]
        return "True", Reason.WAKING, f"waking, requests are held until it is up: {doing}"
    if sleep_state.gate is GateState.OPEN and models[0] == "True" and not traffic.routed:
        return _not_routed(snapshot, traffic, sleep_state, models)
    return models


def _overdue(snapshot: Snapshot, models: Said) -> Said:
    """The wake goes on, and requests are held for as long again, but somebody ought to know."""
    status, reason, doing = models
    held = snapshot.before.gate.hold_seconds if snapshot.before.gate is not None else 0
    said = f"the wake has taken longer than requests are held, which is {held} s: {doing}"
    return "False", reason if status == "False" else Reason.WAKE_OVERDUE, said


def look_again(sleep_state: SleepState, traffic: Traffic, now: datetime) -> timedelta | None:
    """When time alone may change what is said; None: never."""
    if sleep_state.gate is not GateState.OPEN or traffic.routed:
        return None
    left = max(sleep_state.since + FINDING - now, FINDING - traffic.unrouted)
    return left if left > timedelta(0) else None


def _not_routed(snapshot: Snapshot, traffic: Traffic, sleep_state: SleepState, models: Said) -> Said:
    """The models answer the operator, who asks past the gateways, and no gateway sees them."""
    was = snapshot.before.ready.get("status")
    if was == "True" and snapshot.now - sleep_state.since < FINDING:
        return "True", Reason.WAKING, f"up, and no gateway has found the Ray head yet: {_HELD}"
    if was == "True" and traffic.unrouted < FINDING:
        return models
    said = (
        f"the models answer, but no gateway of the namespace reaches the Ray head: {_HELD}; "
        "see whether a NetworkPolicy is in the way"
    )
    return ("False" if was in ("True", "False") else "Unknown"), Reason.NOT_ROUTED, said


def reconciling(sleep_state: SleepState, ready: Said, models: Said) -> Said:
    """The condition Reconciling of a service that is not stalled, from what the models alone make it."""
    if sleep_state.phase is Phase.ASLEEP:
        return "False", Reason.STEADY, "asleep, as it should be"
    if ready[0] == "True" and sleep_state.phase in (Phase.DRAINING, Phase.WAKING):
        # What traffic brings about is no change of the spec: nobody has to wait for its end.
        return "False", Reason.STEADY, ready[2]
    return models
