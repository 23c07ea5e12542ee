"""Conditions of a service behind a gateway, where a request may wait for its answer."""

from daybreak.api.status import GateState, Phase, Reason
from daybreak.lifecycle.conditions import Said
from daybreak.lifecycle.look import Look
from daybreak.lifecycle.machine import Course
from daybreak.lifecycle.traffic import Traffic


def ready(look: Look, traffic: Traffic, course: Course, models: Said) -> Said:
    """The condition, from what it would be by the models alone."""
    if course.phase is Phase.ASLEEP and course.gate is GateState.FAILED:
        return "False", Reason.ASLEEP, course.reason
    if course.phase is Phase.FAILED or course.gate is GateState.FAILED:
        return models
    if traffic.acknowledged < 0:
        was = look.before.ready.get("status") in ("True", "False")
        said = "no gateway of the namespace is heard: see its Deployment daybreak-gateway"
        return ("False" if was else "Unknown"), Reason.GATEWAY_MISSING, said
    if course.asleep is not None:
        return "True", Reason.ASLEEP, "asleep: a request wakes it, and is answered when it is up"
    if course.phase is Phase.DRAINING:
        return "True", Reason.ANSWERING, "falling asleep: a request turns it round"
    if course.gate is GateState.CLOSED and look.before.ready.get("status") == "True" and models[0] != "True":
        # Only after sleep: a service that has never answered is not ready before it has.
        # In the decision to wake itself the models still sleep.
        doing = "its worker pods are asked for" if look.asleep else models[2]
        return "True", Reason.WAKING, f"waking, requests are held until it is up: {doing}"
    return models


def reconciling(course: Course, ready: Said, models: Said) -> Said:
    """The condition Reconciling of a service that is not stalled, from what the models alone make it."""
    if course.phase is Phase.ASLEEP:
        return "False", Reason.STEADY, "asleep, as it should be"
    if ready[0] == "True" and course.phase in (Phase.DRAINING, Phase.WAKING):
        # What traffic brings about is no change of the spec: nobody has to wait for its end.
        return "False", Reason.STEADY, ready[2]
    return models
