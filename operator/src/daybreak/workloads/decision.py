"""Decide on a workload: a pure function of the observation and its assessment.

Every decision starts from the observed state, never from earlier actions, so it can be repeated any number of
times. The only memory is the status itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.gates.sleep_state import SleepState
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.probing import Probing
from daybreak.workloads.rolled import Course, Rolled, rolled
from daybreak.workloads.transition import earliest, next_steps

V = TypeVar("V", bound=Assessed)


@dataclass(frozen=True)
class Decided:
    """The decision on a workload."""

    apply: bool = False
    """True if the operator must apply the workload's objects."""
    asking: Probing = field(default_factory=Probing)
    """Models to probe, past the gateway."""
    states: Mapping[str, SleepState] = field(default_factory=dict)
    """New sleep state of each gate, by the gate's name. Empty without a gateway."""
    rolled: Rolled | None = None
    """State of the workload's rollout."""
    look_again: timedelta | None = None
    """Time after which the decision may change without an event, or None if only an event changes it."""

    def holds(self, gate: str) -> bool:
        """Return True if the gateway holds requests to a gate."""
        state = self.states.get(gate)
        return state is not None and state.gate is not GateState.OPEN


def decide(view: V | None, course: Callable[[V], Course]) -> Decided:
    """Decide on the sleep of each gate, and on a change of the spec.

    Args:
        view: The assessed observation, or None if the object cannot be read or is being deleted.
        course: Returns the kind's information about a rollout.
    """
    if view is None:
        return Decided()
    blocked, change = view.blocked, rolled(view, course)
    steps = next_steps(view.observed, view.assess(), change)
    states = {gate: each.state for gate, each in steps.items()}
    pauses = [each.look_again for each in steps.values()]
    due = earliest(*pauses, change.look_again if change is not None else None)
    # Objects that the API server has rejected are applied again.
    apply = blocked is None or blocked.reason is Reason.OBJECT_REJECTED
    return Decided(apply, view.asking() if blocked is None else Probing(), states, change, due)
