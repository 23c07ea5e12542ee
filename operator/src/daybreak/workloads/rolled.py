"""Rollout of a workload: input and result of the rollout state machine, in the same form for all kinds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.rollout import RolloutPhase
from daybreak.problems.redact import excerpt
from daybreak.rollouts.deadline import deadline
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import Errors, RolloutState, Situation, look_again, step
from daybreak.rollouts.strategy import Change, Surroundings
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.observed import Observed

REFUSAL_LIMIT = 2000
"""Maximum length of a quotation of the API server, in characters."""


@dataclass(frozen=True)
class Rolled:
    """State of a rollout."""

    history: History
    state: RolloutState
    limit: timedelta
    """Maximum duration of the rollout."""
    look_again: timedelta | None = None
    """Time after which the state may change without an event, or None if only an event changes it."""


@dataclass(frozen=True)
class Course:
    """Facts of a kind about a rollout that is in progress or requested."""

    carried_out: bool
    """True if the objects match the built revision."""
    answers: bool
    """True if everything that is awake has answered as the built revision."""
    asleep: bool
    """True if nothing runs until a request arrives."""
    vacated: bool
    """True if the pods to replace are gone."""
    beside: bool
    """True if the revision that answered last serves alongside other pods."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Change that leads to another revision, by the revision's name."""
    crowded: str | None = None
    """Reason why additional pods currently have no capacity, empty if they have, or None if unknown."""
    second: str = Surroundings.second
    """Noun phrase for messages: the objects that would run alongside the current ones."""
    apart: str = ""
    """Reason why other pods cannot serve alongside the running ones. Empty if they can."""
    no_room: str = ""
    """Message of the scheduler if it cannot place the pods. Empty if it can."""
    problems: str = ""
    """Problems of running or starting pods that require action."""
    errors: Errors | None = None
    """Errors of a model of the revision that has answered with nothing but errors."""
    preparing: str = ""
    """Preparation that must end before running pods are disturbed."""
    filling: bool = False
    """True while the revision waits for its weights and has requested nothing yet."""
    look_again: timedelta | None = None
    """Time after which these facts may change without an event."""
    nodes_after: timedelta | None = None
    """Time until a change that fits on no node is checked again, or None to wait for a node change."""


V = TypeVar("V", bound=Assessed)


def rolled(view: V, course_of: Callable[[V], Course]) -> Rolled | None:
    """Return the rollout's next state.

    It is the previous state if a problem prevents the operator from applying the spec.

    Args:
        view: The assessed workload.
        course_of: Returns the kind's facts about a rollout.
    """
    observed: Observed[Any] = view.observed
    blocked, history = view.blocked, observed.history
    if history is None:
        return None
    limit = deadline(history.rollout.deadline, [gate.wake for gate in observed.gates.values()])
    held_up = blocked is not None and blocked.reason is not Reason.OBJECT_REJECTED
    if held_up or history.wish is None or history.built is None:
        return None if history.state is None else Rolled(history, history.state, limit)
    course = course_of(view)
    situation = _situation(observed, view.assess(), course, history, limit)
    state = step(history.state, situation, history.wish)
    waits = state.phase is RolloutPhase.BLOCKED and bool(situation.around.misfit)
    pauses = [look_again(state, situation), course.look_again, course.nodes_after if waits else None]
    return Rolled(history, state, limit, min((each for each in pauses if each is not None), default=None))


def _situation(
    observed: Observed[Any],
    assessed: Mapping[str, Assessment],
    course: Course,
    history: History,
    limit: timedelta,
) -> Situation:
    states, gateway = observed.sleep_states, observed.gateway
    built, other = history.built, history.desired != history.built
    assert built is not None  # noqa: S101 - checked by the caller
    open_gates = [gate for gate in assessed if gate not in states or states[gate].gate is GateState.OPEN]
    replacing = any(state.phase is Phase.REPLACING for state in states.values())
    return Situation(
        revision=built.name,
        known=history.known,
        changes=course.changes,
        around=Surroundings(
            serving=any(assessed[gate].answering for gate in open_gates),
            holds=gateway is not None and not gateway.leaving,
            crowded=course.crowded,
            second=course.second,
            apart=course.apart,
            misfit=_misfit(observed) if other else "",
        ),
        answers=course.answers,
        asleep=course.asleep and not replacing,
        vacated=course.vacated,
        beside=course.beside,
        no_room=course.no_room,
        stuck=_stuck(observed, course),
        errors=course.errors,
        preparing=course.preparing,
        filling=course.filling,
        limit=limit,
        now=observed.now,
    )


def _stuck(observed: Observed[Any], course: Course) -> str:
    """Return why the revision cannot start. Empty if it can, or if the previous one has the problem."""
    if observed.refusal:
        return f"the API server refused {excerpt(observed.refusal, REFUSAL_LIMIT)}"
    return course.problems if course.carried_out else ""


def _misfit(observed: Observed[Any]) -> str:
    """Return which pods of the requested revision fit on no node, as a message."""
    if observed.target is None or observed.nodes is None or not observed.fit_checked:
        return ""
    return "; ".join(misfit.message for misfit in observed.misfits_of(observed.target, observed.nodes))
