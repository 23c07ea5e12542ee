"""What a service has held of accelerators, and what its sleep has saved."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.llmservice.definition import LLMService
from daybreak.gates.ledger import Accelerators, count, savings_before
from daybreak.gates.state_machine import SleepState
from daybreak.kinds.llmservice.decide.model_health import ModelHealth
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.scheduling.replica_size import accelerators_awake


def savings(
    seen: Observed, service: LLMService, models: Sequence[ModelHealth], sleep_states: Mapping[str, SleepState]
) -> SavingsStatus | None:
    """The sums of now; None of a service without accelerators, or without a gateway, which never sleeps."""
    waited_for = sum(seen.turn(model.name).waited_for for model in models)
    now = replace(held(service, models, sleep_states), waited_for=waited_for)
    before = savings_before(seen.status)
    if not sleep_states or (before is None and now == Accelerators()):
        return None
    return count(before, now, seen.now)


def held(
    service: LLMService, models: Sequence[ModelHealth], sleep_states: Mapping[str, SleepState]
) -> Accelerators:
    """What the models hold at this moment, and what they do not because they sleep."""
    awake = waking = given_back = 0
    least = {model.name: accelerators_awake(service.workload, model) for model in service.spec.models}
    for model in models:
        state = sleep_states.get(model.name)
        if state is None:
            continue
        if state.asleep is not None and state.phase is not Phase.REPLACING:
            awake += model.gpus  # its pods are on their way out
            given_back += max(0, least[model.name] - model.gpus)
        elif state.gate is GateState.OPEN:
            awake += model.gpus
        else:
            waking += model.gpus
    return Accelerators(awake, waking, given_back)
