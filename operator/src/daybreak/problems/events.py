"""Events, and the changes of a status that cause them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import parse_time
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.rollout import RolloutPhase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.scheduling.claim import Turn
from daybreak.scheduling.turn_words import no_room

_GOOD = {ConditionType.READY: "True", ConditionType.SCHEDULABLE: "True", ConditionType.STALLED: "False"}
"""Conditions that get events, with the status of each that means success."""
ROLLED_OUT = "RolledOut"
"""Reason of the event for a successful rollout."""
ROOM_FOUND = "RoomFound"
"""Reason of the event for a waiting model whose pods have been scheduled."""


@dataclass(frozen=True)
class Event:
    """An event that is posted once, at a change: a condition that has turned, a service that wakes."""

    action: str
    """Action or assessment, for the event's `action`: the type of the condition, or `Wake`."""
    warning: bool
    reason: str
    note: str


def transitions(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Event]:
    """Return events for conditions that have turned good or bad, or are bad for another reason.

    The first status of a service causes an event only if it is bad. A changed message with the same status
    and reason causes none.
    """
    old = _by_type((before or {}).get("conditions") or ())
    found = []
    for condition in after.get("conditions") or ():
        good = _GOOD.get(condition["type"])
        previous = old.get(condition["type"])
        if good is None or condition["status"] == "Unknown":
            continue
        bad = condition["status"] != good
        if previous is None or previous["status"] == "Unknown":
            news = bad if condition["type"] != ConditionType.READY else not bad
        elif previous["status"] != condition["status"]:
            news = True
        else:
            news = (
                bad and previous["reason"] != condition["reason"] and condition["type"] != ConditionType.READY
            )
        if news:
            found.append(Event(condition["type"], bad, condition["reason"], condition["message"]))
    return found + _rollout(before or {}, after) + _sleep_and_wake(before or {}, after)


def _rollout(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Event]:
    """Return events for a started rollout and for a successful one. `Stalled` reports its problems."""
    was, now = before.get("rollout") or {}, after.get("rollout") or {}
    if not was or not now:
        return []
    phase, strategy = now["phase"], now.get("strategy")
    coming = now.get("targetRevision") or now["currentRevision"]
    if phase in (RolloutPhase.PROGRESSING, RolloutPhase.ROLLING_BACK) and strategy is not None:
        begun = (was.get("targetRevision") or was["currentRevision"], was.get("strategy")) != (
            coming,
            strategy,
        )
        # A revision that has waited was in the status before.
        waited = was["phase"] in (RolloutPhase.PAUSED, RolloutPhase.PREPARING, RolloutPhase.BLOCKED)
        if waited or (begun and was.get("targetRevision") != coming):
            return [
                Event("Rollout", False, strategy, f"{coming} is rolled out by {strategy}: {now['reason']}")
            ]
    if now.get("lastSuccessfulRevision") == now["currentRevision"] and (phase, was["phase"]) in _ROLLED_OUT:
        reason = Reason.ROLLED_BACK if phase == RolloutPhase.ROLLED_BACK else ROLLED_OUT
        return [Event("Rollout", False, reason, f"{now['currentRevision']} answers")]
    return []


_ROLLED_OUT = (
    (RolloutPhase.COMPLETE, RolloutPhase.PROGRESSING),
    (RolloutPhase.ROLLED_BACK, RolloutPhase.ROLLING_BACK),
)
"""Phases that end a rollout successfully, each with its previous phase."""


def _sleep_and_wake(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Event]:
    found = []
    gates = _gates(after)
    for name, gate in gates.items():
        was = _gates(before).get(name, {})
        model = f"model {name}: " if len(gates) > 1 else ""
        depth, deeper = was.get("sleepDepth"), gate.get("sleepDepth")
        if deeper is not None and deeper != depth:
            released = "the whole Ray cluster is" if deeper == SleepDepth.CLUSTER else "the workers are"
            other = f" for {gate['yieldedTo']}, which waits for them" if gate.get("yieldedTo") else ""
            reason, message = Reason.ASLEEP, f"{model}{released} released{other}; a request wakes it"
            if gate.get("phase") == Phase.REPLACING:
                reason, message = (
                    Reason.REPLACING,
                    f"{model}old pods terminate and new pods start; requests are held",
                )
            found.append(Event("Sleep", False, reason, message))
        if depth is not None and deeper is None:
            replaced = was.get("phase") == Phase.REPLACING
            message = "its new pods are being created" if replaced else f"waking from sleep at depth {depth}"
            found.append(Event("Wake", False, Reason.WAKING, f"{model}{message}"))
        wake = gate.get("wake") or {}
        if wake.get("seconds") is not None and (was.get("wake") or {}).get("seconds") is None:
            found.append(Event("Wake", False, Reason.AWAKE, f"{model}{_awake(wake)}"))
        found += _waits(model, was, gate)
    return found


def _waits(model: str, was: Mapping[str, Any], gate: Mapping[str, Any]) -> list[Event]:
    """Return the event for the start or the end of a wait for accelerators.

    The position is reported once, because it changes with each model that is added ahead. A model that leaves
    the queue sleeps again, which has its own event.
    """
    if _in_line(gate) and not _in_line(was):
        room = gate.get("acceleratorQueue") or {}
        turn = Turn(
            held_by=tuple(room.get("heldBy") or ()),
            place=room.get("position") or 0,
            expected=parse_time(room.get("expectedTime") or ""),
        )
        message = no_room(gate.get("queuedBehind") or (), turn)
        return [Event("Wait", False, Reason.WAITING_FOR_ACCELERATORS, f"{model}{message}")]
    if _in_line(was) and not _in_line(gate) and gate.get("sleepDepth") is None and gate["phase"] in _UP:
        return [Event("Wait", False, ROOM_FOUND, f"{model}its pods have nodes")]
    return []


def _in_line(gate: Mapping[str, Any]) -> bool:
    """Return True if a waking model's pods cannot be scheduled before other models leave or start.

    A model that was first stays in the queue until the end, even while its pods are recreated and the
    scheduler has not evaluated them.
    """
    room = gate.get("acceleratorQueue") or {}
    queued = (
        gate.get("queuedBehind") or room.get("position") or room.get("headTime") or room.get("overdueTime")
    )
    return gate.get("sleepDepth") is None and bool(queued)


_UP = (Phase.WAKING, Phase.AWAKE, Phase.UPDATING)


def _gates(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {gate["name"]: gate for gate in (status.get("gate") or {}).get("models") or ()}


def _awake(wake: Mapping[str, Any]) -> str:
    if wake.get("failed"):
        return "awake, after requests had been rejected during the wake"
    return f"awake after {wake['seconds']} s; half of the recent wakes took {wake['p50Seconds']} s or less"


def _by_type(conditions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {condition["type"]: condition for condition in conditions}
