"""What is said of a service: its conditions, phase and models, from what was judged.

Conditions follow kstatus: Stalled is the only failure, Reconciling means on the way, and Ready=True that
every model answers. The words hold no time and no count of attempts, so that the same state is the same
status, byte by byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.common.unstructured import written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import MAX_GATES, GateBackend, GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import HeadStatus, LLMServiceStatus, ModelStatus
from daybreak.api.llmservice.validation import notices
from daybreak.gates import sleep_policy
from daybreak.kinds.llmservice.decide import adapters
from daybreak.kinds.llmservice.decide.adapters import Adapters
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.problems import to_act_on
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.view import View
from daybreak.kinds.llmservice.status import conditions, defaults, gated_conditions
from daybreak.kinds.llmservice.status.carried_over import MODEL_MESSAGE_LIMIT
from daybreak.kinds.llmservice.status.condition_list import Conditions, Said
from daybreak.problems.problem import Problem
from daybreak.rollouts import record, words
from daybreak.workloads.gate_report import Gates
from daybreak.workloads.outcome import Outcome

_NOT_SETTLED = (Phase.WAKING, Phase.REPLACING, Phase.UPDATING, Phase.FAILED)
_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"


def status(view: View, outcome: Outcome) -> LLMServiceStatus:
    """The status of a service whose spec can be read."""
    seen, snapshot, models, blocked = view.seen, view.snapshot, view.models, view.blocked
    service, gates, change = snapshot.service, outcome.gates, outcome.rolled
    states = gates.states
    lora = adapters.judge(snapshot, models)
    held_back = blocked if not snapshot.ray.exists else None
    if held_back is not None:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    stalled = to_act_on(snapshot, models, blocked)
    said, ready = Conditions(seen), _ready(view, models, outcome, lora)
    said.set(ConditionType.READY, *ready)
    chosen = defaults.defaults(seen)
    behind_gateway = seen.gateway is not None and not seen.gateway.leaving
    notes = (*notices(service, gateway=behind_gateway), *defaults.note(chosen))
    waking = any(_comes_up(gates, model) for model in states)
    said.set(ConditionType.ACTIVE, *conditions.active(notes, models, held_back, waking=waking))
    said.set(ConditionType.SCHEDULABLE, *conditions.schedulable(seen))
    reconciling = conditions.reconciling(snapshot, models, ready, stalled)
    if states and not stalled:
        reconciling = gated_conditions.reconciling(states, ready, reconciling)
    if snapshot.filling and not stalled:
        reconciling = conditions.filling(snapshot)
    reconciling = conditions.taking_up(reconciling, adapters.on_the_way(lora.values()))
    told = conditions.stalled(stalled)
    if blocked is None and change is not None:
        reconciling = words.reconciling(change.history, change.state, reconciling)
        told = words.stalled(change.history, change.state, told)
    said.set(ConditionType.RECONCILING, *reconciling)
    said.set(ConditionType.STALLED, *told)
    phase = sleep_policy.phase(states.values()) if states else None
    return LLMServiceStatus(
        observed_generation=max(0, service.generation),
        phase=phase or conditions.phase(snapshot, models, ready, stalled),
        phase_since=gates.phase_since(phase) if phase else None,
        asleep=sleep_policy.depth(states.values()),
        access=gates.access(),
        gate=_gate(snapshot, gates, lora),
        url=names.url(service.name, service.namespace),
        replicas=_replicas(service, models),
        gpus=sum(model.gpus for model in models),
        savings=gates.savings(),
        selector=f"{names.SERVICE_LABEL}={service.name},{names.RAY_NODE_TYPE_LABEL}=worker",
        defaults=chosen,
        rollout=record.said(change.state, seen.revisions, change.limit) if change is not None else None,
        head=_head(snapshot.problem),
        models=[_model(model, lora[model.name], snapshot.problem) for model in models],
        conditions=said.made,
    )


def _ready(view: View, models: Sequence[ModelHealth], outcome: Outcome, lora: Mapping[str, Adapters]) -> Said:
    seen, snapshot, blocked, change = view.seen, view.snapshot, view.blocked, outcome.rolled
    if seen.gateway is not None and not seen.gateway.past:
        ready = gated_conditions.ready(snapshot, models, blocked, seen.gateway, outcome.gates.states)
    else:
        ready = conditions.ready(snapshot, models, blocked)
    ready = conditions.with_adapters(ready, adapters.in_the_way(lora.values()))
    if blocked is not None or change is None or change.state.strategy is not RolloutStrategy.IN_PLACE:
        return ready
    built = change.history.built
    revision = change.state.revision
    return conditions.restarting(ready, revision, built.name if built else revision, seen.changes)


def _replicas(service: LLMService, models: Sequence[ModelHealth]) -> int:
    ready = [model.replicas for model in models]
    # Who scales compares this with spec.replicas, which is for each model.
    return sum(ready) if service.spec.replicas is None else min(ready, default=0)


def _gate(snapshot: Snapshot, gates: Gates, lora: Mapping[str, Adapters]) -> GateStatus | None:
    states = gates.states
    askable = {
        name: adapters.askable(snapshot, lora[name], open_to_all=state.gate is GateState.OPEN)
        for name, state in states.items()
    }
    # A model from before goes on until those of the spec are up, or a new Ray cluster has taken over.
    stay = snapshot.first or any(state.phase in _NOT_SETTLED for state in states.values())
    displaced = snapshot.displaced[: MAX_GATES - len(states)] if stay else ()
    active = snapshot.first or snapshot.ray.active
    return gates.status([GateBackend(cluster=active)] if active else [], askable, displaced)


def _comes_up(gates: Gates, model: str) -> bool:
    """Whether a model is on the way up from sleep."""
    state, wake = gates.states[model], gates.wakes[model]
    up = state.asleep is None and state.gate is GateState.CLOSED
    return up and wake is not None and wake.under_way


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
        errors_since=written(model.errors_since) if model.errors_since is not None else None,
        cache=model.cache,
    )
