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
from daybreak.api.llmservice.status import HeadStatus, LLMServiceStatus, ModelState, ModelStatus
from daybreak.api.llmservice.validation import notices
from daybreak.gates.sleep_policy import gate_status, told_to_clients, wakes_before
from daybreak.gates.state_machine import SleepState, WorkloadHealth
from daybreak.gates.wake_history import wake_history
from daybreak.kinds.llmservice.decide import adapters
from daybreak.kinds.llmservice.decide.adapters import Adapters
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.wake_timeline import wake_timeline
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import conditions, gated_conditions
from daybreak.kinds.llmservice.status.carried_over import MODEL_MESSAGE_LIMIT
from daybreak.kinds.llmservice.status.condition_list import Conditions
from daybreak.problems.problem import Problem
from daybreak.scheduling import fit

_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"


def status(
    seen: Observed,
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    misfits: tuple[fit.Misfit, ...] | None,
    blocked: Problem | None,
    sleep_state: SleepState | None,
) -> LLMServiceStatus:
    """The status of a service whose spec can be read; `sleep_state` is None without a gateway."""
    service = snapshot.service
    said = Conditions(seen)
    lora = adapters.judge(snapshot, models)
    wakes = wakes_before(seen.status)
    if sleep_state is not None:
        wakes = wake_history(
            wakes,
            seen.sleep_state,
            sleep_state,
            snapshot.now,
            partial(wake_timeline, snapshot, models),
        )
    held_back = blocked if not snapshot.ray.exists else None
    if held_back is not None:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    ready = conditions.ready(snapshot, models, blocked)
    stalled = conditions.to_act_on(snapshot, models, blocked)
    if seen.gateway is not None and sleep_state is not None:
        ready = gated_conditions.ready(snapshot, seen.gateway.traffic, sleep_state, ready)
    ready = conditions.with_adapters(ready, adapters.in_the_way(lora.values()))
    said.set(ConditionType.READY, *ready)
    told = notices(service, gateway=seen.gateway is not None)
    said.set(
        ConditionType.ACTIVE, *conditions.active(told, models, held_back, waking=_wakes(sleep_state, wakes))
    )
    said.set(ConditionType.SCHEDULABLE, *conditions.schedulable(seen, misfits))
    reconciling = conditions.reconciling(snapshot, models, ready, stalled)
    if sleep_state is not None and not stalled:
        reconciling = gated_conditions.reconciling(sleep_state, ready, reconciling)
    if snapshot.filling and not stalled:
        reconciling = conditions.filling(snapshot)
    reconciling = conditions.taking_up(reconciling, adapters.on_the_way(lora.values()))
    said.set(ConditionType.RECONCILING, *reconciling)
    said.set(ConditionType.STALLED, *conditions.stalled(stalled))
    return LLMServiceStatus(
        observed_generation=max(0, service.generation),
        phase=sleep_state.phase if sleep_state else conditions.phase(snapshot, models, ready, stalled),
        phase_since=written(sleep_state.since) if sleep_state else None,
        asleep=sleep_state.asleep if sleep_state else None,
        access=_access(service) if sleep_state else None,
        gate=_gate(seen, snapshot, models, lora, sleep_state, wakes) if sleep_state else None,
        wake=wakes,
        url=names.url(service.name, service.namespace),
        replicas=_replicas(service, models),
        gpus=sum(model.gpus for model in models),
        selector=f"{names.SERVICE_LABEL}={service.name},{names.RAY_NODE_TYPE_LABEL}=worker",
        head=_head(snapshot.problem),
        models=[_model(model, lora[model.name], snapshot.problem) for model in models],
        conditions=said.made,
    )


def _replicas(service: LLMService, models: Sequence[ModelHealth]) -> int:
    ready = [model.replicas for model in models]
    # Who scales compares this with spec.replicas, which is for each model.
    return sum(ready) if service.spec.replicas is None else min(ready, default=0)


def _gate(
    seen: Observed,
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    lora: Mapping[str, Adapters],
    sleep_state: SleepState,
    wakes: WakeStatus | None,
) -> GateStatus | None:
    if seen.gateway is None:
        return None
    askable = _askable(snapshot, models, lora, sleep_state)
    return gate_status(
        sleep_state, snapshot.service.spec.hold, seen.gateway.port, snapshot.ray.active, wakes, askable
    )


def _askable(
    snapshot: Snapshot, models: Sequence[ModelHealth], lora: Mapping[str, Adapters], sleep_state: SleepState
) -> Sequence[str]:
    """Names of the models that can be asked for, and of their adapters.

    Where requests are let through the names stay, beside those that answer already, until every model of the
    spec answers or a new Ray cluster has taken over. KubeRay lets it when Serve runs there, a moment before
    its models have been asked.
    """
    is_open = sleep_state.gate is GateState.OPEN

    def with_adapters(models: Iterable[ModelHealth]) -> list[str]:
        return [
            name
            for model in models
            for name in (model.name, *adapters.askable(snapshot, lora[model.name], open_to_all=is_open))
        ]

    if not is_open or sleep_state.phase is Phase.AWAKE or not snapshot.served:
        return with_adapters(models)
    answering = with_adapters(model for model in models if model.answering)
    return [*dict.fromkeys([*snapshot.served, *answering])][:MAX_ASKABLE]


def _access(service: LLMService) -> Literal["Open", "ApiKeys"]:
    return "ApiKeys" if service.spec.access and service.spec.access.api_keys else "Open"


def _wakes(sleep_state: SleepState | None, wakes: WakeStatus | None) -> bool:
    """Whether it is on the way up from sleep."""
    up = sleep_state is not None and sleep_state.asleep is None and sleep_state.gate is GateState.CLOSED
    return up and wakes is not None and wakes.under_way


def health(snapshot: Snapshot, models: Sequence[ModelHealth], blocked: Problem | None) -> WorkloadHealth:
    """How the models are, for the state machine."""
    stalled = conditions.to_act_on(snapshot, models, blocked)
    answering = [model for model in models if model.answering]
    silent = [model for model in models if not model.answering]
    given_up = all(_given_up(snapshot, model) for model in silent)
    # Of what has the place of other models nothing has been asked: those go on until it has taken it.
    others = set(snapshot.served) - {model.name for model in models}
    failed = not answering and not others
    return WorkloadHealth(
        answers=bool(answering) and given_up,
        failed=told_to_clients([problem.message for problem in stalled]) if failed else "",
        updating=snapshot.ray.upgrading or any(model.state is ModelState.UPDATING for model in models),
        stalled=bool(stalled) and bool(silent),
    )


def _given_up(snapshot: Snapshot, model: ModelHealth) -> bool:
    """Whether nothing will come of a model until somebody acts, so that the others do not wait for it."""
    if model.problem is not None and model.problem.stalled:
        return True
    waits = snapshot.asleep or snapshot.before.node_wait is not None
    return model.name in snapshot.misfits and not waits and not model.replicas


def _head(problem: Problem | None) -> HeadStatus | None:
    if problem is None or not problem.of_head:
        return None
    return HeadStatus(reason=problem.reason, message=problem.message)


def _model(model: ModelHealth, lora: Adapters, whole: Problem | None) -> ModelStatus:
    """The state of a model; `whole` keeps the whole Ray cluster down, and is no reason of its own."""
    return ModelStatus(
        name=model.name,
        state=model.state,
        replicas=model.replicas,
        gpus=model.gpus,
        reason=None if model.problem is None or model.problem is whole else model.problem.reason,
        message=(model.problem.message if model.problem else model.doing)[:MODEL_MESSAGE_LIMIT] or None,
        lora=None if lora.of is None else list(lora.of),
        answered=model.answered,
        cache=model.cache,
    )
