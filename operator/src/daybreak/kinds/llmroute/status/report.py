"""Status of an LLMRoute, built from the decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.condition_list import Made, dated
from daybreak.api.common.unstructured import condition, mapping, whole
from daybreak.api.llmroute.canary import CanaryPhase
from daybreak.api.llmroute.external import ExternalStatus
from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.llmroute.status import (
    BackendState,
    BackendStatus,
    LLMRouteStatus,
    RouteConditionType,
    RouteReason,
)
from daybreak.kinds.llmroute.decide.decision import Decision, Problem
from daybreak.kinds.llmroute.observe.observed import ObservedRoute
from daybreak.kinds.llmroute.status.got import Got, due, got
from daybreak.problems.events import Event

ACTION = "Route"
"""Action of every event of a route."""
_THERE = (BackendState.OPEN, BackendState.HOLDING, BackendState.FAILED)


def report(observed: ObservedRoute, decision: Decision, now: datetime) -> LLMRouteStatus:
    """Return the desired status of the route."""
    metadata, before = mapping(observed.manifest.get("metadata")), mapping(observed.manifest.get("status"))
    generation = max(0, whole(metadata.get("generation")))
    made = _conditions(decision)
    status = LLMRouteStatus(observed_generation=generation, conditions=dated(before, made, now, generation))
    if observed.route is None or not decision.states:
        return status
    spec = observed.route.spec
    update: dict[str, Any] = {
        "names": list(decision.names),
        "backends": _backends(spec, decision, {}),
        "matches": spec.matches,
        "fallback": spec.fallback,
        "external_fallback": _external(spec, {}),
        "mirror": spec.mirror,
        "session_affinity_header": spec.session_affinity.header
        if spec.session_affinity is not None
        else None,
        "session_affinity_key": True
        if spec.session_affinity is not None and spec.session_affinity.api_key
        else None,
        "sleeping_backends": spec.sleeping_backends,
        **_address(observed),
    }
    if decision.counted is not None:
        found, update["counts"] = got(before, decision.counted, now)
        update["external_fallback"] = _external(spec, found)
        update["backends"] = _backends(spec, decision, found)
    if decision.canary is not None:
        update["canary"] = decision.canary.status
    return status.model_copy(update=update)


def _address(observed: ObservedRoute) -> dict[str, Any]:
    """Return the fields of the dedicated address once its Service exists."""
    address, route = observed.address, observed.route
    if route is None or address is None or not address.there:
        return {}
    return {"url": names.url(route.name, route.namespace), "port": address.port}


def again(observed: ObservedRoute, decision: Decision, now: datetime) -> float | None:
    """Return the seconds until the status may change by itself; None or 0 to wait for a change."""
    waits = []
    if decision.counted is not None and (wait := due(observed.status, decision.counted, now)):
        waits.append(wait)
    if decision.canary is not None and decision.canary.due is not None:
        waits.append(max(0.1, (decision.canary.due - now).total_seconds()))
    return min(waits, default=None)


def events(before: Any, after: LLMRouteStatus) -> list[Event]:
    """Return the events for the changes: the route is ready, action is required, or the canary moved."""
    found = []
    for each in after.conditions:
        was = condition(before, each.type)
        if each.type == RouteConditionType.STALLED and each.status == "True":
            reported = (
                each.reason == RouteReason.CANARY_ROLLED_BACK
            )  # reported with the canary's own condition
            if not reported and (was.get("status"), was.get("reason")) != (each.status, each.reason):
                found.append(Event(ACTION, True, each.reason, each.message))
        elif each.type == RouteConditionType.READY and each.status == "True" and was.get("status") != "True":
            found.append(Event(ACTION, False, each.reason, each.message))
        elif each.type == RouteConditionType.CANARY and _has_moved(before, after):
            found.append(Event(ACTION, each.status != "True", each.reason, each.message))
    return found


def _has_moved(before: Any, after: LLMRouteStatus) -> bool:
    was, now = mapping(mapping(before).get("canary")), after.canary
    return now is not None and (was.get("phase"), was.get("step")) != (now.phase, now.step)


def _backends(spec: LLMRouteSpec, decision: Decision, found: Got) -> list[BackendStatus]:
    rows = list(zip(spec.every(), decision.states, decision.weights, strict=True))
    total = sum(weight for _, state, weight in rows if state in _THERE)
    return [
        BackendStatus(
            kind=backend.kind,
            service=backend.service,
            model=backend.model,
            weight=weight,
            share=round(weight / total, 4) if total and state in _THERE else 0.0,
            state=state,
            **found.get(backend.counted_as, {}),
        )
        for backend, state, weight in rows
    ]


def _external(spec: LLMRouteSpec, found: Got) -> ExternalStatus | None:
    external = spec.external_fallback
    if external is None:
        return None
    fields = {
        name: value
        for name, value in found.get(external.counted_as, {}).items()
        if name != "fallback_requests"
    }
    return ExternalStatus(**dict(external), **fields)


def _conditions(decision: Decision) -> list[Made]:
    names = ", ".join(decision.names)
    accepted = _made(RouteConditionType.ACCEPTED, decision.unaccepted, f"{names}: routed by weight")
    ready = _made(
        RouteConditionType.READY,
        (*decision.unaccepted, *decision.unready),
        f"{names}: every backend with a weight is available",
    )
    canary = _canary(decision)
    wrong = [each for each in (*decision.unaccepted, *decision.unready) if not each.waits]
    if canary is not None and not canary.holds:
        wrong.append(Problem(RouteReason.CANARY_ROLLED_BACK, canary.message))
    stalled = Made(
        RouteConditionType.STALLED,
        bool(wrong),
        wrong[0].reason if wrong else RouteReason.ROUTED,
        _words(wrong) if wrong else "no problem blocks the route",
    )
    return [each for each in (accepted, canary, ready, stalled) if each is not None]


def _canary(decision: Decision) -> Made | None:
    if decision.canary is None:
        return None
    status = decision.canary.status
    name = f"model {status.model} of {status.kind} {status.service}"
    match status.phase:
        case CanaryPhase.PROGRESSING:
            reason, words = RouteReason.CANARY_PROGRESSING, f"{name}: {status.message}"
        case CanaryPhase.PROMOTED:
            reason = RouteReason.CANARY_PROMOTED
            words = f"{name} keeps {status.weight} % of the requests: {status.message}"
        case CanaryPhase.ROLLED_BACK:
            reason = RouteReason.CANARY_ROLLED_BACK
            words = f"{name} no longer receives requests: {status.message}"
    return Made(RouteConditionType.CANARY, status.phase is not CanaryPhase.ROLLED_BACK, reason, words)


def _made(kind: RouteConditionType, problems: Sequence[Problem], good: str) -> Made:
    if problems:
        return Made(kind, False, problems[0].reason, _words(problems))
    return Made(kind, True, RouteReason.ROUTED, good)


def _words(problems: Sequence[Problem]) -> str:
    return "; ".join(each.message for each in problems)
