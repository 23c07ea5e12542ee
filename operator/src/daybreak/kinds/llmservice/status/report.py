"""What is said of a service: its conditions, phase and models, from what was judged.

Conditions follow kstatus: Stalled is the only failure, Reconciling means on the way, and Ready=True that
every model answers. The words hold no time and no count of attempts, so that the same state is the same
status, byte by byte.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.common.unstructured import written
from daybreak.api.gates.gate_status import MAX_ASKABLE, GateState, GateStatus, Phase, WakeStatus
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import LLMServiceStatus, ModelState, ModelStatus
from daybreak.api.llmservice.validation import notices
from daybreak.gates.sleep_policy import (
    course_or_start,
    gate_status,
    told_to_clients,
    wakes_before,
)
from daybreak.gates.state_machine import Backend, Course
from daybreak.gates.wake_history import ledger
from daybreak.kinds.llmservice.decide import adapters
from daybreak.kinds.llmservice.decide.adapters import Adapters
from daybreak.kinds.llmservice.decide.model_health import ModelView
from daybreak.kinds.llmservice.decide.snapshot import Look
from daybreak.kinds.llmservice.decide.wake_timeline import steps
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import conditions, gated_conditions
from daybreak.kinds.llmservice.status.carried_over import MODEL_MESSAGE_LIMIT
from daybreak.kinds.llmservice.status.condition_list import Conditions
from daybreak.problems.problem import Trouble
from daybreak.scheduling import fit

_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"


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
    said = Conditions(seen)
    lora = adapters.judge(look, models)
    wakes = wakes_before(seen.status)
    if course is not None:
        wakes = ledger(
            wakes, course_or_start(seen.status, seen.now), course, look.now, partial(steps, look, models)
        )
    held_back = blocked if not look.ray.exists else None
    if held_back is not None:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    ready = conditions.ready(look, models, blocked)
    stalled = conditions.to_act_on(look, models, blocked)
    if seen.gateway is not None and course is not None:
        ready = gated_conditions.ready(look, seen.gateway.traffic, course, ready)
    ready = conditions.with_adapters(ready, adapters.in_the_way(lora.values()))
    said.set(ConditionType.READY, *ready)
    told = notices(service, gateway=seen.gateway is not None)
    said.set(ConditionType.ACTIVE, *conditions.active(told, models, held_back, waking=_wakes(course, wakes)))
    said.set(ConditionType.SCHEDULABLE, *conditions.schedulable(seen, misfits))
    reconciling = conditions.reconciling(look, models, ready, stalled)
    if course is not None and not stalled:
        reconciling = gated_conditions.reconciling(course, ready, reconciling)
    if look.filling and not stalled:
        reconciling = conditions.filling(look)
    reconciling = conditions.taking_up(reconciling, adapters.on_the_way(lora.values()))
    said.set(ConditionType.RECONCILING, *reconciling)
    said.set(ConditionType.STALLED, *conditions.stalled(stalled))
    return LLMServiceStatus(
        observed_generation=max(0, service.generation),
        phase=course.phase if course else conditions.phase(look, models, ready, stalled),
        phase_since=written(course.since) if course else None,
        asleep=course.asleep if course else None,
        access=_access(service) if course else None,
        gate=_gate(seen, look, models, lora, course, wakes) if course else None,
        wake=wakes,
        url=names.url(service.name, service.namespace),
        replicas=sum(model.replicas for model in models),
        gpus=sum(model.gpus for model in models),
        selector=f"{names.SERVICE_LABEL}={service.name},{names.RAY_NODE_TYPE_LABEL}=worker",
        models=[_model(model, lora[model.name]) for model in models],
        conditions=said.made,
    )


def _gate(
    seen: Observed,
    look: Look,
    models: Sequence[ModelView],
    lora: Mapping[str, Adapters],
    course: Course,
    wakes: WakeStatus | None,
) -> GateStatus | None:
    if seen.gateway is None:
        return None
    askable = _askable(look, models, lora, course)
    return gate_status(course, look.service.spec.hold, seen.gateway.port, look.ray.active, wakes, askable)


def _askable(
    look: Look, models: Sequence[ModelView], lora: Mapping[str, Adapters], course: Course
) -> Sequence[str]:
    """Names of the models that can be asked for, and of their adapters.

    Where requests are let through the names stay, beside those that answer already, until every model of the
    spec answers or a new Ray cluster has taken over. KubeRay lets it when Serve runs there, a moment before
    its models have been asked.
    """
    is_open = course.gate is GateState.OPEN

    def with_adapters(models: Iterable[ModelView]) -> list[str]:
        return [
            name
            for model in models
            for name in (model.name, *adapters.askable(look, lora[model.name], open_to_all=is_open))
        ]

    if not is_open or course.phase is Phase.AWAKE or not look.served:
        return with_adapters(models)
    answering = with_adapters(model for model in models if model.answering)
    return [*dict.fromkeys([*look.served, *answering])][:MAX_ASKABLE]


def _access(service: LLMService) -> Literal["Open", "ApiKeys"]:
    return "ApiKeys" if service.spec.access and service.spec.access.api_keys else "Open"


def _wakes(course: Course | None, wakes: WakeStatus | None) -> bool:
    """Whether it is on the way up from sleep."""
    up = course is not None and course.asleep is None and course.gate is GateState.CLOSED
    return up and wakes is not None and wakes.under_way


def backend(look: Look, models: Sequence[ModelView], blocked: Trouble | None) -> Backend:
    """How the models are, for the state machine."""
    stalled = conditions.to_act_on(look, models, blocked)
    answering = [model for model in models if model.answering]
    silent = [model for model in models if not model.answering]
    given_up = all(_given_up(look, model) for model in silent)
    # Of what has the place of other models nothing has been asked: those go on until it has taken it.
    others = set(look.served) - {model.name for model in models}
    failed = not answering and not others
    return Backend(
        answers=bool(answering) and given_up,
        failed=told_to_clients([trouble.message for trouble in stalled]) if failed else "",
        updating=look.ray.upgrading or any(model.state is ModelState.UPDATING for model in models),
        stalled=bool(stalled) and bool(silent),
    )


def _given_up(look: Look, model: ModelView) -> bool:
    """Whether nothing will come of a model until somebody acts, so that the others do not wait for it."""
    if model.trouble is not None and model.trouble.stalled:
        return True
    waits = look.asleep or look.before.node_wait is not None
    return model.name in look.misfits and not waits and not model.replicas


def _model(model: ModelView, lora: Adapters) -> ModelStatus:
    return ModelStatus(
        name=model.name,
        state=model.state,
        replicas=model.replicas,
        gpus=model.gpus,
        message=(model.trouble.message if model.trouble else model.doing)[:MODEL_MESSAGE_LIMIT] or None,
        lora=None if lora.of is None else list(lora.of),
        answered=model.answered,
        cache=model.cache,
    )
