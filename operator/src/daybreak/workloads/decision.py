"""Decide on a workload: a pure function of what was observed and assessed.

Every decision starts from what is there, never from what was done before, so it may be taken any number of
times. The only memory is the status itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.gates.sleep_state import SleepState
from daybreak.workloads.asking import Asking
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.rolled import Course, Rolled, rolled
from daybreak.workloads.transition import earliest, next_steps

V = TypeVar("V", bound=Assessed)


@dataclass(frozen=True)
class Decided:
    """What was decided on a workload."""

    apply: bool = False
    """Whether its objects are to be made what they should be."""
    asking: Asking = field(default_factory=Asking)
    """Which models are to be asked for an answer, past the gateway."""
    states: Mapping[str, SleepState] = field(default_factory=dict)
    """Sleep and wake of each gate from here on, by its name; empty without a gateway."""
    rolled: Rolled | None = None
    """What becomes of a change of it."""
    look_again: timedelta | None = None
    """When time alone may change the decision; None: only an event does."""

    def holds(self, gate: str) -> bool:
        """Return whether requests to a gate are held."""
        state = self.states.get(gate)
        return state is not None and state.gate is not GateState.OPEN


def decide(view: V | None, course: Callable[[V], Course]) -> Decided:
    """Decide on the sleep of each gate, and on a change of the spec.

    Args:
        view: What was observed, assessed; None: it cannot be read, or is being deleted.
        course: Returns what is known of a change of it.
    """
    if view is None:
        return Decided()
    blocked, change = view.blocked, rolled(view, course)
    steps = next_steps(view.seen, view.assess(), change)
    states = {gate: each.state for gate, each in steps.items()}
    pauses = [each.look_again for each in steps.values()]
    due = earliest(*pauses, change.look_again if change is not None else None)
    # What the API server has refused is tried again.
    apply = blocked is None or blocked.reason is Reason.OBJECT_REJECTED
    return Decided(apply, view.asking() if blocked is None else Asking(), states, change, due)
