"""What becomes of a change of a workload: the rollouts' machine, told of any kind in the same way."""

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
"""Longest quotation of the API server, in characters."""


@dataclass(frozen=True)
class Rolled:
    """What becomes of a change."""

    history: History
    state: RolloutState
    limit: timedelta
    """How long the change may take."""
    look_again: timedelta | None = None
    """When time alone may change it; None: never."""


@dataclass(frozen=True)
class Course:
    """What a kind knows of a change that is on its way, or asked for."""

    carried_out: bool
    """Whether its objects are what the revision that is built asks for."""
    answers: bool
    """Whether everything that is awake has answered as that revision."""
    asleep: bool
    """Whether nothing runs until a request comes."""
    vacated: bool
    """Whether the pods have gone that were to be replaced."""
    beside: bool
    """Whether what answered last serves beside other pods."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """What it takes to come to another revision, by its name."""
    crowded: str | None = None
    """Why there is no room now for other pods beside those that run; None: unknown."""
    second: str = Surroundings.second
    """What would come beside them."""
    apart: str = ""
    """Why other pods cannot serve beside those that run; empty: they can."""
    no_room: str = ""
    """The scheduler's words, where they have found no room; empty: they have."""
    problems: str = ""
    """What a person has to act on, of what runs or starts."""
    errors: Errors | None = None
    """What a model of the revision says that has answered with nothing but errors."""
    preparing: str = ""
    """What is to be done before what runs is disturbed."""
    filling: bool = False
    """Whether the revision waits for its weights, and has asked for nothing yet."""
    look_again: timedelta | None = None
    """When time alone may change this."""
    nodes_after: timedelta | None = None
    """How soon nodes are compared again with a change that fits on none; None: at a change of nodes."""


V = TypeVar("V", bound=Assessed)


def rolled(view: V, course_of: Callable[[V], Course]) -> Rolled | None:
    """Return what becomes of a change; as it was, where something keeps the spec from being applied.

    Args:
        view: The workload, assessed.
        course_of: What its kind knows of a change.
    """
    seen: Observed[Any] = view.seen
    blocked, history = view.blocked, seen.history
    if history is None:
        return None
    limit = deadline(history.rollout.deadline, [gate.wake for gate in seen.gates.values()])
    held_up = blocked is not None and blocked.reason is not Reason.OBJECT_REJECTED
    if held_up or history.wish is None or history.built is None:
        return None if history.state is None else Rolled(history, history.state, limit)
    course = course_of(view)
    situation = _situation(seen, view.assess(), course, history, limit)
    state = step(history.state, situation, history.wish)
    waits = state.phase is RolloutPhase.BLOCKED and bool(situation.around.misfit)
    pauses = [look_again(state, situation), course.look_again, course.nodes_after if waits else None]
    return Rolled(history, state, limit, min((each for each in pauses if each is not None), default=None))


def _situation(
    seen: Observed[Any],
    assessed: Mapping[str, Assessment],
    course: Course,
    history: History,
    limit: timedelta,
) -> Situation:
    states, gateway = seen.sleep_states, seen.gateway
    built, other = history.built, history.wanted != history.built
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
            misfit=_misfit(seen) if other else "",
        ),
        answers=course.answers,
        asleep=course.asleep and not replacing,
        vacated=course.vacated,
        beside=course.beside,
        no_room=course.no_room,
        stuck=_stuck(seen, course),
        errors=course.errors,
        preparing=course.preparing,
        filling=course.filling,
        limit=limit,
        now=seen.now,
    )


def _stuck(seen: Observed[Any], course: Course) -> str:
    """Why the revision cannot start; empty: it can, or what is told is of the one before."""
    if seen.refusal:
        return f"the API server refused {excerpt(seen.refusal, REFUSAL_LIMIT)}"
    return course.problems if course.carried_out else ""


def _misfit(seen: Observed[Any]) -> str:
    """What of the revision that is asked for fits on no node."""
    if seen.target is None or seen.nodes is None or not seen.fit_checked:
        return ""
    return "; ".join(misfit.message for misfit in seen.misfits_of(seen.target, seen.nodes))
