"""Status of a service: its conditions, phase and models, from the assessments.

Conditions follow kstatus: `Stalled` is the only failure, `Reconciling` means in progress, and `Ready=True`
means that every model answers. The messages contain no time and no number of attempts, so that the same state
gives the same status, byte by byte.
"""

from collections.abc import Mapping, Sequence

from daybreak.api.common import names
from daybreak.api.common.condition_list import dated
from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.common.unstructured import mappings, whole, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import MAX_GATES, GateBackend, GateStatus, Phase
from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import HeadStatus, LLMServiceStatus, ModelStatus
from daybreak.api.llmservice.validation import notices
from daybreak.gates import sleep_policy
from daybreak.gates.sleep_state import SleepState
from daybreak.kinds.llmservice.decide import adapters
from daybreak.kinds.llmservice.decide.adapters import Adapters
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.view import View
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import conditions, defaults
from daybreak.problems.problem import Problem
from daybreak.rollouts import record
from daybreak.workloads import conditions as shared
from daybreak.workloads import report as common
from daybreak.workloads.gate_report import Gates
from daybreak.workloads.outcome import Outcome

MODEL_MESSAGE_LIMIT = 2000
"""Maximum length of a model's message, in characters."""
_NOT_SETTLED = (Phase.WAKING, Phase.REPLACING, Phase.UPDATING, Phase.FAILED)


def status(view: View, outcome: Outcome) -> LLMServiceStatus:
    """Return the status of a service with a valid spec."""
    observed, snapshot, models, change = view.observed, view.snapshot, view.models, outcome.rolled
    service, gates, states = snapshot.service, outcome.gates, outcome.gates.states
    lora = adapters.judge(snapshot, models)
    ready = _ready(view, outcome, lora)
    chosen = defaults.defaults(observed)
    active = _active(view, gates, defaults.note(chosen))
    going = _reconciling(view, states, ready, lora)
    made = shared.made(view, change, ready, active, going)
    phase = sleep_policy.phase(states.values()) if states else None
    generation = max(0, service.generation)
    return LLMServiceStatus(
        observed_generation=generation,
        phase=phase or conditions.phase(snapshot, models, ready, view.to_act_on),
        phase_transition_time=gates.phase_transition_time(phase) if phase else None,
        sleep_depth=sleep_policy.depth(states.values()),
        access=gates.access(),
        gate=_gate(snapshot, gates, lora),
        url=names.url(service.name, service.namespace),
        replicas=_replicas(service, models),
        accelerators=sum(model.gpus for model in models),
        savings=gates.savings(),
        selector=f"{names.owner_selector(service.name)},{names.RAY_NODE_TYPE_LABEL}=worker",
        defaults=chosen,
        rollout=record.rollout_status(change.state, observed.revisions, change.limit)
        if change is not None
        else None,
        head=_head(snapshot.problem),
        models=[_model(model, lora[model.name], snapshot.problem) for model in models],
        conditions=dated(observed.status, made, observed.now, generation),
    )


def as_before(observed: Observed, reason: Reason, message: str) -> LLMServiceStatus:
    """Return the previous status for a service that is being deleted or whose spec is invalid."""
    held = any(whole(item.get("replicas")) for item in mappings(observed.status.get("models")))
    return common.as_before(LLMServiceStatus, observed, reason, message, active=held)


def _ready(view: View, outcome: Outcome, lora: Mapping[str, Adapters]) -> ShortCondition:
    change = outcome.rolled
    ready = shared.ready(view, outcome.gates.states, outcome.moments)
    ready = conditions.with_adapters(ready, adapters.in_the_way(lora.values()))
    if view.blocked is not None or change is None or change.state.strategy is not RolloutStrategy.IN_PLACE:
        return ready
    built, revision = change.history.built, change.state.current_revision
    return conditions.restarting(ready, revision, built.name if built else revision, view.observed.changes)


def _active(view: View, gates: Gates, defaulted: Sequence[str]) -> ShortCondition:
    observed, snapshot = view.observed, view.snapshot
    held_back = view.blocked if not snapshot.ray.exists else None
    behind_gateway = observed.gateway is not None and not observed.gateway.leaving
    notes = (*notices(snapshot.service, gateway=behind_gateway), *defaulted)
    waking = any(_comes_up(gates, model) for model in gates.states)
    return conditions.active(notes, view.models, held_back, waking=waking)


def _reconciling(
    view: View, states: Mapping[str, SleepState], ready: ShortCondition, lora: Mapping[str, Adapters]
) -> ShortCondition:
    snapshot = view.snapshot
    found = shared.reconciling(view, states, ready, conditions.progress(snapshot, view.models, ready))
    if snapshot.filling and not view.to_act_on:
        found = conditions.filling(snapshot)
    return conditions.taking_up(found, adapters.on_the_way(lora.values()))


def _replicas(service: LLMService, models: Sequence[ModelHealth]) -> int:
    ready = [model.replicas for model in models]
    # The client that scales the service compares this with `spec.replicas`, which applies to each model.
    return sum(ready) if service.spec.replicas is None else min(ready, default=0)


def _gate(snapshot: Snapshot, gates: Gates, lora: Mapping[str, Adapters]) -> GateStatus | None:
    states = gates.states
    askable = {
        name: adapters.askable(snapshot, lora[name], open_to_all=state.gate is GateState.OPEN)
        for name, state in states.items()
    }
    # A model of the previous spec continues until those of the spec are up, or a new Ray cluster has taken
    # over.
    stay = snapshot.first or any(state.phase in _NOT_SETTLED for state in states.values())
    displaced = snapshot.displaced[: MAX_GATES - len(states)] if stay else ()
    active = snapshot.first or snapshot.ray.active
    return gates.status([GateBackend(cluster=active)] if active else [], askable, displaced)


def _comes_up(gates: Gates, model: str) -> bool:
    """Return True if a model is waking from sleep."""
    state, wake = gates.states[model], gates.wakes[model]
    up = state.asleep is None and state.gate is GateState.CLOSED
    return up and wake is not None and wake.under_way


def _head(problem: Problem | None) -> HeadStatus | None:
    if problem is None or not problem.of_head:
        return None
    return HeadStatus(reason=problem.reason, message=problem.message)


def _model(model: ModelHealth, lora: Adapters, whole: Problem | None) -> ModelStatus:
    """Return the status of a model; `whole` is a problem of the whole Ray cluster, not its reason."""
    return ModelStatus(
        name=model.name,
        state=model.state,
        replicas=model.replicas,
        accelerators=model.gpus,
        reason=None if model.problem is None or model.problem is whole else model.problem.reason,
        message=(model.problem.message if model.problem else model.doing)[:MODEL_MESSAGE_LIMIT] or None,
        lora=None if lora.of is None else list(lora.of),
        probed_configuration=model.answered,
        errors_start_time=written(model.errors_since) if model.errors_since is not None else None,
        cache=model.cache,
    )
