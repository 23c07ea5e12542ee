"""What is said of a service: its conditions, phase and models, from what was judged.

Conditions follow kstatus: Stalled is the only failure, Reconciling means on the way, and Ready=True that
every model answers. The words hold no time and no count of attempts, so that the same state is the same
status, byte by byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Literal

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.common.unstructured import parse_time, text, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import MAX_GATES, GateBackend, GateStatus, Phase, WakeStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.status import HeadStatus, LLMServiceStatus, ModelState, ModelStatus
from daybreak.api.llmservice.validation import notices
from daybreak.gates import idle_policy, sleep_policy
from daybreak.gates.room import room_status, yielded_to
from daybreak.gates.sleep_policy import told_to_clients
from daybreak.gates.state_machine import Health, SleepState
from daybreak.gates.wake_history import wake_history
from daybreak.kinds.llmservice.decide import adapters
from daybreak.kinds.llmservice.decide.adapters import Adapters
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.decide.rollout import limit
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.wake_timeline import wake_timeline
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.status import conditions, defaults, gated_conditions
from daybreak.kinds.llmservice.status.carried_over import MODEL_MESSAGE_LIMIT
from daybreak.kinds.llmservice.status.condition_list import Conditions
from daybreak.kinds.llmservice.status.savings import savings
from daybreak.problems.problem import Problem
from daybreak.rollouts import record, words
from daybreak.rollouts.machine import RolloutState
from daybreak.scheduling import fit
from daybreak.scheduling.claim import Turn

_NOT_SETTLED = (Phase.WAKING, Phase.REPLACING, Phase.UPDATING, Phase.FAILED)
_NO_CLUSTER = "no Ray cluster is made for it: see Stalled"


def status(
    seen: Observed,
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    misfits: tuple[fit.Misfit, ...] | None,
    blocked: Problem | None,
    sleep_states: Mapping[str, SleepState],
    change: RolloutState | None,
) -> LLMServiceStatus:
    """The status of a service whose spec can be read; `sleep_states` is empty without a gateway."""
    service = snapshot.service
    said = Conditions(seen)
    lora = adapters.judge(snapshot, models)
    wakes = _wakes(seen, snapshot, sleep_states)
    held_back = blocked if not snapshot.ray.exists else None
    if held_back is not None:
        models = [replace(model, doing=_NO_CLUSTER) for model in models]
    stalled = conditions.to_act_on(snapshot, models, blocked)
    if seen.gateway is not None and not seen.gateway.past:
        ready = gated_conditions.ready(snapshot, models, blocked, seen.gateway, sleep_states)
    else:
        ready = conditions.ready(snapshot, models, blocked)
    ready = conditions.with_adapters(ready, adapters.in_the_way(lora.values()))
    if blocked is None and change is not None and change.strategy is RolloutStrategy.IN_PLACE:
        built = seen.own_revision.name if seen.own_revision is not None else change.revision
        ready = conditions.restarting(ready, change.revision, built, seen.changes)
    said.set(ConditionType.READY, *ready)
    chosen = defaults.defaults(seen)
    behind_gateway = seen.gateway is not None and not seen.gateway.leaving
    notes = (*notices(service, gateway=behind_gateway), *defaults.note(chosen))
    waking = any(_comes_up(sleep_states[model], wake) for model, wake in wakes.items())
    said.set(ConditionType.ACTIVE, *conditions.active(notes, models, held_back, waking=waking))
    said.set(ConditionType.SCHEDULABLE, *conditions.schedulable(seen, misfits))
    reconciling = conditions.reconciling(snapshot, models, ready, stalled)
    if sleep_states and not stalled:
        reconciling = gated_conditions.reconciling(sleep_states, ready, reconciling)
    if snapshot.filling and not stalled:
        reconciling = conditions.filling(snapshot)
    reconciling = conditions.taking_up(reconciling, adapters.on_the_way(lora.values()))
    told = conditions.stalled(stalled)
    if blocked is None and seen.history is not None and change is not None:
        reconciling = words.reconciling(seen.history, change, reconciling)
        told = words.stalled(seen.history, change, told)
    said.set(ConditionType.RECONCILING, *reconciling)
    said.set(ConditionType.STALLED, *told)
    phase = sleep_policy.phase(sleep_states.values()) if sleep_states else None
    since = parse_time(text(seen.status.get("phaseSince"))) if seen.status.get("phase") == phase else None
    return LLMServiceStatus(
        observed_generation=max(0, service.generation),
        phase=phase or conditions.phase(snapshot, models, ready, stalled),
        phase_since=written(since or snapshot.now) if phase else None,
        asleep=sleep_policy.depth(sleep_states.values()),
        access=_access(service) if sleep_states else None,
        gate=_gate(seen, snapshot, models, lora, sleep_states, wakes),
        url=names.url(service.name, service.namespace),
        replicas=_replicas(service, models),
        gpus=sum(model.gpus for model in models),
        savings=savings(seen, service, models, sleep_states),
        selector=f"{names.SERVICE_LABEL}={service.name},{names.RAY_NODE_TYPE_LABEL}=worker",
        defaults=chosen,
        rollout=record.said(change, seen.revisions, limit(seen)) if change is not None else None,
        head=_head(snapshot.problem),
        models=[_model(model, lora[model.name], snapshot.problem) for model in models],
        conditions=said.made,
    )


def _replicas(service: LLMService, models: Sequence[ModelHealth]) -> int:
    ready = [model.replicas for model in models]
    # Who scales compares this with spec.replicas, which is for each model.
    return sum(ready) if service.spec.replicas is None else min(ready, default=0)


def _wakes(
    seen: Observed, snapshot: Snapshot, sleep_states: Mapping[str, SleepState]
) -> dict[str, WakeStatus | None]:
    """What waking has taken, by model."""
    found = {}
    for model in snapshot.service.spec.models:
        if model.name not in sleep_states:
            continue
        gate, was = seen.gates.get(model.name), seen.sleep_states[model.name]
        if was.asleep is not None and seen.asleep is SleepDepth.CLUSTER:
            was = replace(was, asleep=SleepDepth.CLUSTER)
        elif was.asleep is not None:
            was = replace(was, asleep=SleepDepth.WORKERS)
        steps = partial(wake_timeline, snapshot, model)
        before = gate.wake if gate is not None else None
        found[model.name] = wake_history(before, was, sleep_states[model.name], snapshot.now, steps)
    return found


def _gate(
    seen: Observed,
    snapshot: Snapshot,
    models: Sequence[ModelHealth],
    lora: Mapping[str, Adapters],
    sleep_states: Mapping[str, SleepState],
    wakes: Mapping[str, WakeStatus | None],
) -> GateStatus | None:
    if seen.gateway is None:
        return None
    roomy = {model.name for model in models if model.has_room}
    gates = [
        sleep_policy.model_gate(
            name,
            state,
            snapshot.service.spec.hold,
            wakes[name],
            adapters.askable(snapshot, lora[name], open_to_all=state.gate is GateState.OPEN),
            after=_after(seen.turn(name), state),
            idle=_idle(seen, snapshot, name, state, wakes[name]),
            yielded_to=yielded_to(seen.gates.get(name), state, seen.turn(name)),
            room=room_status(
                seen.gates.get(name),
                state,
                seen.turn(name),
                seen.gateway.of(name),
                has_room=name in roomy,
                now=seen.now,
            ),
        )
        for name, state in sleep_states.items()
    ]
    # A model from before goes on until those of the spec are up, or a new Ray cluster has taken over.
    if snapshot.first or any(state.phase in _NOT_SETTLED for state in sleep_states.values()):
        gates += snapshot.displaced[: MAX_GATES - len(gates)]
    active = snapshot.first or snapshot.ray.active
    backends = [GateBackend(cluster=active)] if active else []
    return GateStatus(port=seen.gateway.port, backends=backends, models=gates)


def _idle(
    seen: Observed, snapshot: Snapshot, name: str, state: SleepState, wake: WakeStatus | None
) -> IdleStatus | None:
    """The pauses between a model's requests, and what follows from them."""
    service, gateway = snapshot.service, seen.gateway
    model = next((each for each in service.spec.models if each.name == name), None)
    if model is None or gateway is None:
        return None
    looked = idle_policy.Seen(gateway.of(name), wake, seen.now)
    sleep, gate = service.sleep_of(model), seen.gates.get(name)
    return idle_policy.idle_status(gate, sleep, seen.sleep_states[name], state, looked)


def _after(turn: Turn, sleep_state: SleepState) -> tuple[str, ...]:
    """Who comes before a model that is on the way up, or that is asked in its sleep and has had its turn."""
    if sleep_state.asleep is not None and turn.gives_way_to:
        return (turn.gives_way_to,)
    return turn.after if sleep_state.phase is Phase.WAKING and sleep_state.asleep is None else ()


def _access(service: LLMService) -> Literal["Open", "ApiKeys"]:
    return "ApiKeys" if service.spec.access and service.spec.access.api_keys else "Open"


def _comes_up(sleep_state: SleepState, wake: WakeStatus | None) -> bool:
    """Whether a model is on the way up from sleep."""
    up = sleep_state.asleep is None and sleep_state.gate is GateState.CLOSED
    return up and wake is not None and wake.under_way


def health(
    snapshot: Snapshot,
    model: ModelHealth,
    models: Sequence[ModelHealth],
    blocked: Problem | None,
    drain: timedelta,
) -> Health:
    """How one of the models is, for the state machine; `drain` is how long what runs may take to end."""
    stalled = conditions.to_act_on(snapshot, [model], blocked)
    return Health(
        answers=model.answering,
        drain=drain,
        failed="" if model.answering else told_to_clients([problem.message for problem in stalled]),
        updating=snapshot.ray.upgrading or model.state is ModelState.UPDATING,
        hindered=snapshot.problem is not None or any(each.problem is not None for each in models),
        waits=snapshot.wakes_from_sleep(model.name) and not model.has_room,
        queues=snapshot.turn(model.name).in_queue,
        gives_way=bool(snapshot.turn(model.name).gives_way_to),
        preempted=snapshot.turn(model.name).preempted,
    )


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
