"""Common status of workloads with one gate: gate, phase and savings, and fields from the previous status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from daybreak.api.common.condition_list import Made, dated
from daybreak.api.common.conditions import Condition, ConditionType, Reason
from daybreak.api.common.unstructured import at, condition, whole
from daybreak.api.gates.gate_status import GateBackend, GateStatus, Phase
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.schema.lenient import readable
from daybreak.workloads import conditions
from daybreak.workloads.observed import Observed
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.view import View

AnyView = View[Any, Any]
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Common:
    """Fields that are common to the status of every kind."""

    observed_generation: int
    phase: Phase
    phase_transition_time: str | None
    access: Literal["Open", "ApiKeys"] | None
    gate: GateStatus | None
    savings: SavingsStatus | None
    conditions: list[Condition]

    def fields(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))


def common(view: AnyView, outcome: Outcome, backends: Sequence[GateBackend]) -> Common:
    """Return the common status fields of a readable workload.

    Args:
        view: The assessed workload.
        outcome: The decision on it.
        backends: Pods that receive requests.
    """
    observed, gates = view.observed, outcome.gates
    state, ready = gates.states.get(observed.gate_name), conditions.ready(view, gates.states, outcome.moments)
    going = conditions.reconciling(view, gates.states, ready, view.progress(ready))
    made = conditions.made(view, outcome.rolled, ready, view.active(gates.states), going)
    phase = state.phase if state is not None else _phase(view, made)
    generation = max(0, view.subject.generation)
    return Common(
        observed_generation=generation,
        phase=phase,
        phase_transition_time=gates.phase_transition_time(phase),
        access=gates.access(),
        gate=gates.status(backends),
        savings=gates.savings(),
        conditions=dated(observed.status, made, observed.now, generation),
    )


def as_before(
    kind: type[M], observed: Observed[Any], reason: Reason, message: str, *, active: bool | None = None
) -> M:
    """Return the status of a deleted or unreadable object, which keeps the previous fields.

    Args:
        kind: Model of the status.
        observed: The observation.
        reason: Reason of its conditions.
        message: Message of its conditions.
        active: True if the object holds pods. Defaults to the value in the status.
    """
    stalled, before = reason is Reason.INVALID_SPEC, observed.status
    generation = max(0, whole(at(observed.manifest, "metadata").get("generation")))
    if active is None:
        active = condition(before, ConditionType.ACTIVE).get("status") == "True"
    made = [
        Made(ConditionType.READY, False, reason, message),
        Made(ConditionType.ACTIVE, active, reason, message),
        Made(ConditionType.SCHEDULABLE, None, reason, message),
        Made(ConditionType.RECONCILING, not stalled, reason, message),
        Made(ConditionType.STALLED, stalled, reason, message),
    ]
    now = {
        "observed_generation": generation,
        "phase": Phase.FAILED if stalled else Phase.DRAINING,
        "conditions": dated(before, made, observed.now, generation),
    }
    return kind(**{**readable(kind, before), **now})


def _phase(view: AnyView, made: list[Made]) -> Phase:
    """Return the phase of a workload without a gateway."""
    holds: Mapping[str, bool | None] = {each.type: each.holds for each in made}
    if holds[ConditionType.READY]:
        return Phase.UPDATING if view.updating else Phase.AWAKE
    return Phase.FAILED if holds[ConditionType.STALLED] else Phase.WAKING
