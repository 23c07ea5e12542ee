"""Decide on a workload and describe it: pure functions of what is observed.

Every decision starts from what is there, never from what was done before, so it may be taken any number of
times. The only memory is the status itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.moments import Moments
from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import GateStatus
from daybreak.gates.sleep_state import SleepState
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.workloads.asking import Asking
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.gate_report import gates_of
from daybreak.workloads.observed import Observed
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.rolled import REFUSAL_LIMIT, Course, Rolled, rolled
from daybreak.workloads.transition import earliest, look_again, next_steps

ASK_AGAIN = (timedelta(seconds=2), timedelta(minutes=2))
"""Shortest and longest pause before models that have not answered are asked again."""
_PATIENCE = 8
"""The pause is this fraction of the time for which a model has been silent."""


class GatedStatus(Protocol):
    """The status of such a workload."""

    @property
    def gate(self) -> GateStatus | None:
        """How the gateway is to treat requests."""
        ...

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """The status in plain values."""
        ...


S = TypeVar("S", bound=Observed[Any])
V = TypeVar("V", bound=Assessed)
R = TypeVar("R", bound=GatedStatus)


@dataclass(frozen=True)
class Ways(Generic[S, V, R]):
    """What a kind makes of it."""

    kind: str
    """Its name."""
    view: Callable[[S, Problem | None], V]
    """Reads what was observed, with what keeps the spec from being applied."""
    status: Callable[[V, Outcome], R]
    """The status of one that can be read, after what was decided."""
    as_before: Callable[[S, Reason, str], R]
    """The status of one that is being deleted, or cannot be read: what was there before stays."""
    course: Callable[[V], Course]
    """What is known of a change of one whose spec can be built."""
    hinders: Callable[[S], Problem | None] = lambda _: None
    """What the cluster lacks for it; None: nothing."""
    look_again: Callable[[V, R], timedelta | None] = lambda *_: None
    """When to look again for what is its own."""

    def read(self, seen: S) -> V | None:
        """Assess what was observed; None: the spec cannot be read, or the object is being deleted."""
        if at(seen.manifest, "metadata").get("deletionTimestamp") or seen.subject is None:
            return None
        return self.view(seen, self.blocked(seen))

    def blocked(self, seen: S) -> Problem | None:
        """Return what keeps the spec from being applied; None: nothing."""
        if seen.subject is None or seen.problems:
            said = "; ".join(seen.problems) or "the spec cannot be read"
            return Problem(Reason.INVALID_SPEC, said, stalled=True)
        lacking = self.hinders(seen)
        if lacking is not None:
            return lacking
        if seen.foreign:
            said = _taken(self.kind, seen.subject.namespace, seen.foreign)
            return Problem(Reason.NAME_TAKEN, said, stalled=True)
        if seen.refusal:
            said = f"the API server refused {excerpt(seen.refusal, REFUSAL_LIMIT)}"
            return Problem(Reason.REFUSED, said, stalled=True)
        return None


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


@dataclass(frozen=True)
class Report(Generic[R]):
    """What is said of a workload."""

    status: R
    look_again: timedelta | None
    """When to look again although nothing has happened; None: not before something happens."""


def decide(view: V | None, ways: Ways[S, V, R]) -> Decided:
    """Decide on the sleep of each gate, and on a change of the spec."""
    if view is None:
        return Decided()
    blocked, change = view.blocked, rolled(view, ways.course)
    steps = next_steps(view.seen, view.assess(), change)
    states = {gate: each.state for gate, each in steps.items()}
    pauses = [each.look_again for each in steps.values()]
    due = earliest(*pauses, change.look_again if change is not None else None)
    # What the API server has refused is tried again.
    apply = blocked is None or blocked.reason is Reason.REFUSED
    return Decided(apply, view.asking() if blocked is None else Asking(), states, change, due)


def report(seen: S, view: V | None, decided: Decided, ways: Ways[S, V, R]) -> Report[R]:
    """Describe a workload, and when to look at it again.

    Args:
        seen: What was observed last, after objects were written.
        view: The same, assessed; None: it cannot be read, or is being deleted.
        decided: What was decided on what was observed before.
        ways: What the kind makes of it.
    """
    if view is None:
        if at(seen.manifest, "metadata").get("deletionTimestamp"):
            return Report(ways.as_before(seen, Reason.TERMINATING, "it is being deleted"), None)
        blocked = ways.blocked(seen)
        said = blocked.message if blocked is not None else ""
        return Report(ways.as_before(seen, Reason.INVALID_SPEC, said), None)
    assessed = view.assess()
    gates = gates_of(seen, assessed, decided.states, view.timeline())
    moments = Moments(seen.now)
    status = ways.status(view, Outcome(view.blocked, gates, moments, decided.rolled))
    written = status.gate.models if status.gate is not None else []
    again = earliest(
        decided.look_again,
        moments.look_again,
        look_again(seen, decided.states, written),
        ways.look_again(view, status),
        decided.asking.later,
    )
    if decided.asking.now:
        shortest, longest = ASK_AGAIN
        again = earliest(again, min(max(_silent_for(seen) / _PATIENCE, shortest), longest))
    return Report(status, again)


def _silent_for(seen: Observed[Any]) -> timedelta:
    """For how long it has been unready because a model did not answer when it was asked."""
    ready = condition(seen.status, ConditionType.READY)
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.NOT_ANSWERING:
        return timedelta(0)
    return seen.now - since


def _taken(kind: str, namespace: str, foreign: Sequence[str]) -> str:
    one = len(foreign) == 1
    return (
        f"{', '.join(foreign)} already {'exists' if one else 'exist'} in {namespace} and "
        f"{'belongs' if one else 'belong'} to somebody else: remove {'it' if one else 'them'}, "
        f"or give the {kind} another name"
    )
