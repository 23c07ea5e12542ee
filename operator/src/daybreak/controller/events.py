"""Which changes of a status are worth an event."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.gates.sleep import SleepDepth

_GOOD = {ConditionType.READY: "True", ConditionType.SCHEDULABLE: "True", ConditionType.STALLED: "False"}
"""The conditions that get events, and the status in which all is well."""


@dataclass(frozen=True)
class Transition:
    """A condition that has turned, or a service that has fallen asleep or woken."""

    type: str
    warning: bool
    reason: str
    note: str


def transitions(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Transition]:
    """The conditions that have turned good or bad, or are bad for another reason than before.

    The first status of a service is no news unless it is bad. Words that change while status and reason
    stay are none either.
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
            found.append(Transition(condition["type"], bad, condition["reason"], condition["message"]))
    return found + _sleep_and_wake(before or {}, after)


def _sleep_and_wake(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Transition]:
    found = []
    gates = _gates(after)
    for name, gate in gates.items():
        was = _gates(before).get(name, {})
        model = f"model {name}: " if len(gates) > 1 else ""
        depth, deeper = was.get("asleep"), gate.get("asleep")
        if deeper is not None and deeper != depth:
            given_back = "the whole Ray cluster is" if deeper == SleepDepth.CLUSTER else "the workers are"
            said = f"{model}{given_back} given back; a request wakes it"
            found.append(Transition("Sleep", False, Reason.ASLEEP, said))
        if depth is not None and deeper is None:
            said = f"{model}waking from sleep at depth {depth}"
            found.append(Transition("Wake", False, Reason.WAKING, said))
        wake = gate.get("wake") or {}
        if wake.get("seconds") is not None and (was.get("wake") or {}).get("seconds") is None:
            found.append(Transition("Wake", False, Reason.AWAKE, f"{model}{_awake(wake)}"))
    return found


def _gates(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {gate["name"]: gate for gate in (status.get("gate") or {}).get("models") or ()}


def _awake(wake: Mapping[str, Any]) -> str:
    if wake.get("failed"):
        return "awake, after requests had been refused on the way"
    return f"awake after {wake['seconds']} s; half of the recent wakes took {wake['p50Seconds']} s or less"


def _by_type(conditions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {condition["type"]: condition for condition in conditions}
