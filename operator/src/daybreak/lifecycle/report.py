"""What is said of a service: its conditions, phase and models, from what was judged.

Conditions follow kstatus: Stalled is the only failure, Reconciling means on the way, and Ready=True that
every model answers. The words hold no time and no count of attempts, so that the same state is the same
status, byte by byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from daybreak.api import names
from daybreak.api.llmservice import LLMService
from daybreak.api.status import (
    ConditionType,
    LLMServiceStatus,
    ModelState,
    ModelStatus,
    Phase,
    Reason,
)
from daybreak.api.validation import notices
from daybreak.lifecycle import fit, gated
from daybreak.lifecycle.conditions import Conditions, Truth, written
from daybreak.lifecycle.course import (
    course_before,
    course_or_start,
    gate_status,
    kept_gate,
    told_to_clients,
    wakes_before,
)
from daybreak.lifecycle.ledger import ledger
from daybreak.lifecycle.look import Look
from daybreak.lifecycle.machine import Backend, Course
from daybreak.lifecycle.models import ModelView
from daybreak.lifecycle.observed import Observed
from daybreak.lifecycle.reading import at, mapping, mappings, text, whole
from daybreak.lifecycle.trouble import Trouble

_MODEL_MESSAGE_LIMIT = 2000
_CHECK_OFF = f"{names.FIT_CHECK_ANNOTATION}={names.FIT_CHECK_OFF}"
_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"
_NODES_COME = f"if nodes are added on demand, annotate the LLMService with {_CHECK_OFF}"


def status(
    seen: Observed,
    look: Look,
    models: Sequence[ModelView],
    misfits: tuple[fit.Misfit, ...] | None,
    blocked: Trouble | None,
    course: Course | None,
) -> LLMServiceStatus:
    """The status of a service whose spec can be read; `course` is None without a gateway."""
    service = look.service
    conditions = Conditions(seen)
    wakes = wakes_before(mapping(seen.manifest.get("status")))
    if course is not None:
        wakes = ledger(wakes, course_or_start(seen), course, look)
    held_back = blocked if not look.ray.exists else None
    if held_back is not None:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    ready = _ready(look, models, blocked)
    stalled = _stalled(look, models, blocked)
    if seen.gateway is not None and course is not None:
        ready = gated.ready(look, seen.gateway.traffic, course, ready)
    conditions.set(ConditionType.READY, *ready)
    told = notices(service, gateway=seen.gateway is not None)
    conditions.set(ConditionType.ACTIVE, *_active(told, models, held_back))
    conditions.set(ConditionType.SCHEDULABLE, *_schedulable(seen, misfits))
    reconciling = _reconciling(look, models, ready, stalled)
    if course is not None and not stalled:
        reconciling = gated.reconciling(course, ready, reconciling)
    conditions.set(ConditionType.RECONCILING, *reconciling)
    conditions.set(ConditionType.STALLED, *_stalled_condition(stalled))
    return LLMServiceStatus(
        observed_generation=max(0, service.generation),
        phase=course.phase if course else _phase(look, models, ready, stalled),
        phase_since=written(course.since) if course else None,
        asleep=course.asleep if course else None,
        access=_access(service) if course else None,
        gate=gate_status(course, service, seen.gateway.port, look.ray.active, wakes)
        if course and seen.gateway
        else None,
        wake=wakes,
        url=names.url(service.name, service.namespace),
        replicas=sum(model.replicas for model in models),
        gpus=sum(model.gpus for model in models),
        selector=f"{names.SERVICE_LABEL}={service.name},{names.RAY_NODE_TYPE_LABEL}=worker",
        models=[_model(model) for model in models],
        conditions=conditions.made,
    )


def _access(service: LLMService) -> Literal["Open", "ApiKeys"]:
    return "ApiKeys" if service.spec.access and service.spec.access.api_keys else "Open"


def backend(look: Look, models: Sequence[ModelView], blocked: Trouble | None) -> Backend:
    """How the models are, for the state machine."""
    stalled = _stalled(look, models, blocked)
    answering = [model for model in models if model.answering]
    silent = [model for model in models if not model.answering]
    given_up = all(model.trouble is not None and model.trouble.stalled for model in silent)
    return Backend(
        answers=bool(answering) and given_up,
        failed="" if answering else told_to_clients([trouble.message for trouble in stalled]),
        updating=look.ray.upgrading or any(model.state is ModelState.UPDATING for model in models),
        stalled=bool(stalled) and bool(silent),
    )


def unreadable(seen: Observed, trouble: Trouble | None) -> LLMServiceStatus:
    """The status of a service whose spec cannot be read: what was there before stays, and is said so."""
    said = trouble.message if trouble else "the spec cannot be read"
    return _as_before(seen, Reason.INVALID_SPEC, said, stalled=True)


def terminating(seen: Observed) -> LLMServiceStatus:
    """The status of a service that is being deleted."""
    return _as_before(seen, Reason.TERMINATING, "the service is being deleted", stalled=False)


def _as_before(seen: Observed, reason: Reason, said: str, *, stalled: bool) -> LLMServiceStatus:
    before = mapping(seen.manifest.get("status"))
    conditions = Conditions(seen)
    conditions.set(ConditionType.READY, "False", reason, said)
    held = any(whole(item.get("replicas")) for item in mappings(before.get("models")))
    active: Truth = "True" if held else "False"
    conditions.set(ConditionType.ACTIVE, active, reason, said)
    conditions.set(ConditionType.SCHEDULABLE, "Unknown", reason, said)
    conditions.set(ConditionType.RECONCILING, "False" if stalled else "True", reason, said)
    conditions.set(ConditionType.STALLED, "True" if stalled else "False", reason, said)
    metadata = at(seen.manifest, "metadata")
    kept = course_before(before, seen.now)
    return LLMServiceStatus(
        observed_generation=max(0, whole(metadata.get("generation"))),
        phase=Phase.FAILED if stalled else Phase.DRAINING,
        phase_since=text(before.get("phaseSince")) or None,
        asleep=kept.asleep if kept else None,
        gate=kept_gate(before),
        wake=wakes_before(before),
        url=text(before.get("url")) or None,
        replicas=whole(before.get("replicas")),
        gpus=whole(before.get("gpus")),
        selector=text(before.get("selector")) or None,
        models=[_kept(item) for item in mappings(before.get("models"))[:16] if text(item.get("name"))],
        conditions=conditions.made,
    )


def _kept(item: Mapping[str, Any]) -> ModelStatus:
    """What was said of a model, as far as it can be read."""
    state = text(item.get("state"))
    return ModelStatus(
        name=text(item.get("name")),
        state=ModelState(state) if state in set(ModelState) else ModelState.PENDING,
        replicas=whole(item.get("replicas")),
        gpus=whole(item.get("gpus")),
        message=text(item.get("message"))[:_MODEL_MESSAGE_LIMIT] or None,
        answered=text(item.get("answered")) or None,
    )


def _model(model: ModelView) -> ModelStatus:
    return ModelStatus(
        name=model.name,
        state=model.state,
        replicas=model.replicas,
        gpus=model.gpus,
        message=(model.trouble.message if model.trouble else model.doing)[:_MODEL_MESSAGE_LIMIT] or None,
        answered=model.answered,
    )


def _ready(look: Look, models: Sequence[ModelView], blocked: Trouble | None) -> tuple[Truth, Reason, str]:
    if blocked is not None:
        kept = "; what was applied before stays as it is" if look.ray.exists else ""
        return "False", blocked.reason, f"{blocked.message}{kept}"
    silent = [model for model in models if not model.answering]
    if not silent:
        return "True", Reason.ANSWERING, _answering(look, models)
    troubles = _troubles(look, silent)
    if troubles:
        return "False", troubles[0].reason, "; ".join(trouble.message for trouble in troubles)
    doing = "; ".join(f"model {model.name}: {model.doing}" for model in silent)
    lost = look.before.ready.get("status") in ("True", "False")
    if lost and look.ray.active and not look.ray.ready:
        return "False", Reason.NOT_ANSWERING, "the Ray cluster takes no requests at the moment"
    if look.ray.upgrading or any(model.state is ModelState.UPDATING for model in silent):
        return "Unknown", Reason.UPDATING, doing
    return "Unknown", Reason.PROGRESSING, doing


def _answering(look: Look, models: Sequence[ModelView]) -> str:
    url = names.url(look.service.name, look.service.namespace)
    asleep = [model.name for model in models if model.state is ModelState.ASLEEP]
    said = f"{'every model answers' if len(models) > 1 else 'the model answers'} at {url}"
    if asleep:
        said += f"; asleep until a request comes: {', '.join(asleep)}"
    return said


def _troubles(look: Look, models: Sequence[ModelView]) -> list[Trouble]:
    """What stands in the way, what somebody must act on first: of the cluster, then of each model."""
    found = [] if look.trouble is None else [look.trouble]
    # What sleeps need not fit: the nodes may have been given back as well.
    misfits = {} if look.asleep else look.misfits
    head = misfits.get(None)
    if head is not None and not look.ray.ready and (look.trouble is None or not look.trouble.stalled):
        found.append(Trouble(Reason.NO_NODE_FITS, f"{head.message}; {_NODES_COME}", stalled=True))
    for model in models:
        misfit = misfits.get(model.name)
        stuck = model.trouble is None or model.trouble.reason is Reason.UNSCHEDULABLE
        if misfit is not None and stuck and not model.answering and not model.replicas:
            found.append(Trouble(Reason.NO_NODE_FITS, f"{misfit.message}; {_NODES_COME}", stalled=True))
        elif model.trouble is not None and model.trouble is not look.trouble:
            said = f"model {model.name}: {model.trouble.message}"
            found.append(Trouble(model.trouble.reason, said, model.trouble.stalled))
    return sorted(found, key=lambda trouble: not trouble.stalled)


def _stalled(look: Look, models: Sequence[ModelView], blocked: Trouble | None) -> list[Trouble]:
    """What somebody has to act on."""
    if blocked is not None:
        return [blocked]
    return [trouble for trouble in _troubles(look, models) if trouble.stalled]


def _stalled_condition(stalled: Sequence[Trouble]) -> tuple[Truth, Reason, str]:
    if stalled:
        return "True", stalled[0].reason, "; ".join(trouble.message for trouble in stalled)
    return "False", Reason.STEADY, "nobody has to act"


def _active(
    notes: Sequence[str], models: Sequence[ModelView], held_back: Trouble | None
) -> tuple[Truth, Reason, str]:
    told = "".join(f"; {note}" for note in notes)
    held = [model for model in models if model.pods or model.gpus]
    if held:
        said = "worker pods are there for " + ", ".join(model.name for model in held)
        return "True", Reason.AWAKE, f"{said}{told}"
    if all(model.state is ModelState.ASLEEP for model in models):
        return "False", Reason.ASLEEP, f"no model holds a worker pod; a request wakes its model{told}"
    if held_back is not None:
        return "False", held_back.reason, f"no worker pod is there, and none is made: see Stalled{told}"
    return "False", Reason.STARTING, f"no worker pod is there yet{told}"


def misfit_message(misfits: Sequence[fit.Misfit]) -> str:
    """What fits nowhere, and what to do where that is only so for the moment."""
    return "; ".join([*(misfit.message for misfit in misfits), _NODES_COME])


def _schedulable(seen: Observed, misfits: tuple[fit.Misfit, ...] | None) -> tuple[Truth, Reason, str]:
    if misfits:
        return "False", Reason.NO_NODE_FITS, misfit_message(misfits)
    if misfits is not None:
        return "True", Reason.FITS, "the head and a replica of each model fit on the nodes"
    if seen.problems:
        return "Unknown", Reason.INVALID_SPEC, "not checked, since the spec is not valid"
    if seen.nodes is None:
        return "Unknown", Reason.NODES_UNKNOWN, "not checked, since the operator may not read nodes"
    return (
        "Unknown",
        Reason.NODES_UNKNOWN,
        f"not checked, since the annotation {names.FIT_CHECK_ANNOTATION} is {names.FIT_CHECK_OFF}",
    )


def _reconciling(
    look: Look,
    models: Sequence[ModelView],
    ready: tuple[Truth, Reason, str],
    stalled: Sequence[Trouble],
) -> tuple[Truth, Reason, str]:
    ray = look.ray
    if stalled:
        return "False", stalled[0].reason, "stopped until somebody acts: see Stalled"
    if ray.upgrading:
        return "True", Reason.UPDATING, f"a new Ray cluster, {ray.pending}, is coming up beside {ray.active}"
    if ready[0] != "True":
        updating = ready[1] is Reason.UPDATING
        return "True", Reason.UPDATING if updating else Reason.PROGRESSING, ready[2]
    few = [model for model in models if model.replicas < model.wanted]
    if few:
        said = "; ".join(
            f"model {model.name}: {model.replicas} of {model.wanted} replicas ready"
            + (f", {model.trouble.message}" if model.trouble else "")
            for model in few
        )
        return "True", Reason.PROGRESSING, said
    if not ray.observed or ray.application is None or not ray.application.settled:
        return "True", Reason.UPDATING, "a change is being carried out"
    return "False", Reason.STEADY, "everything is as the spec says"


def _phase(
    look: Look,
    models: Sequence[ModelView],
    ready: tuple[Truth, Reason, str],
    stalled: Sequence[Trouble],
) -> Phase:
    if stalled and ready[0] != "True":
        return Phase.FAILED
    if look.ray.upgrading or any(model.state is ModelState.UPDATING for model in models):
        return Phase.UPDATING
    if ready[0] != "True":
        return Phase.WAKING
    if all(model.state is ModelState.ASLEEP for model in models):
        return Phase.ASLEEP
    return Phase.AWAKE
