"""What to do next about a workload with one gate, and what to say of it: a pure function of what is seen.

The only memory is the status itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import GateStatus
from daybreak.gates import idle_policy, room
from daybreak.gates.rolling import drain_left, rolled_out
from daybreak.gates.schedule import next_change
from daybreak.gates.sleep_policy import node_wait, told_to_clients
from daybreak.gates.state_machine import Health, SleepState, look_again, step
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.workloads import conditions
from daybreak.workloads.observed import OneGate
from daybreak.workloads.outcome import Outcome, Rolled
from daybreak.workloads.view import View

ASK_AGAIN = (timedelta(seconds=2), timedelta(minutes=2))
"""Shortest and longest pause before one that has not answered is asked again."""
_PATIENCE = 8
"""The pause is this fraction of the time for which it has been silent."""
_REFUSAL_LIMIT = 2000


class GatedStatus(Protocol):
    """The status of such a workload."""

    @property
    def gate(self) -> GateStatus | None:
        """How the gateway is to treat requests."""
        ...

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """The status in plain values."""
        ...


S = TypeVar("S", bound=OneGate[Any])
V = TypeVar("V", bound=View[Any, Any])
R = TypeVar("R", bound=GatedStatus)


@dataclass(frozen=True)
class Decision(Generic[R]):
    """What to do, and what to say."""

    apply: bool
    """Whether its objects shall be made what they should be."""
    ask: bool
    """Whether it is to be asked for an answer."""
    status: R
    sleep_state: SleepState | None
    """Its sleep and wake from here on; None without a gateway."""
    requeue_after: timedelta | None
    """When to look again although nothing has happened; None: not before something happens."""


@dataclass(frozen=True)
class Ways(Generic[S, V, R]):
    """What a kind makes of it."""

    kind: str
    """Its name."""
    view: Callable[[S], V]
    """How one is, that can be read."""
    status: Callable[[V, Outcome], R]
    """What to say of one, after what was decided."""
    as_before: Callable[[S, Reason, str], R]
    """The same of one that is being deleted, or cannot be read: what was there before stays."""
    hinders: Callable[[S], Problem | None] = lambda _: None
    """What the cluster lacks for it; None: nothing."""
    rolled: Callable[[V, Problem | None], Rolled | None] = lambda *_: None
    """What becomes of a change of one, where something may keep its spec from being applied; None: the kind
    keeps no revisions, or has none yet."""
    look_again: Callable[[V, R], timedelta | None] = lambda *_: None
    """When to look again for what is its own."""


def decide(seen: S, ways: Ways[S, V, R]) -> Decision[R]:
    """Decide on one."""
    if at(seen.manifest, "metadata").get("deletionTimestamp"):
        gone = ways.as_before(seen, Reason.TERMINATING, "it is being deleted")
        return Decision(False, False, gone, seen.sleep_state, None)
    blocked = _blocked(seen, ways)
    if seen.subject is None:
        said = blocked.message if blocked is not None else ""
        return Decision(False, False, ways.as_before(seen, Reason.INVALID_SPEC, said), None, None)
    view = ways.view(seen)
    stalled = blocked or (view.problem if view.problem is not None and view.problem.stalled else None)
    rolled = ways.rolled(view, blocked)
    state = _step(view, stalled, rolled)
    status = ways.status(view, Outcome(blocked, state, rolled))
    again = _earliest(_look_again(view, state, rolled, status), ways.look_again(view, status))
    if blocked is not None:
        return Decision(False, False, status, state, again)
    if view.ask:
        shortest, longest = ASK_AGAIN
        again = _earliest(again, min(max(_silent_for(view) / _PATIENCE, shortest), longest))
    return Decision(True, view.ask, status, state, again)


def _step(view: View[Any, Any], stalled: Problem | None, rolled: Rolled | None) -> SleepState | None:
    seen = view.seen
    if seen.gateway is None or seen.sleep_state is None:
        return None
    failed = "" if view.answering or stalled is None else told_to_clients([stalled.message])
    health = Health(
        answers=view.answering,
        drain=view.drain,
        failed=failed,
        updating=view.updating,
        hindered=view.problem is not None,
        waits=view.no_room,
        queues=seen.own_turn.in_queue,
        gives_way=bool(seen.own_turn.gives_way_to),
        preempted=seen.own_turn.preempted,
    )
    if rolled is not None:
        health = rolled_out(health, rolled.state, rolled.history.rollout.on_failure)
    return step(seen.sleep_state, seen.sleep_policy, seen.traffic, health, seen.now)


def _look_again(
    view: View[Any, Any], state: SleepState | None, rolled: Rolled | None, status: GatedStatus
) -> timedelta | None:
    seen, of_change = view.seen, rolled.look_again if rolled is not None else None
    if state is None or seen.gateway is None:
        return of_change
    policy, traffic = seen.sleep_policy, seen.traffic
    gates = status.gate.models if status.gate is not None else []
    return _earliest(
        look_again(state, policy, traffic, seen.now),
        conditions.look_again(state, traffic, seen.now),
        of_change,
        drain_left(state, view.drain, seen.now, preempted=seen.own_turn.preempted),
        next_change(policy.sleep.schedule if policy.sleep is not None else (), seen.now),
        seen.own_turn.look_again,
        *(node_wait(gate, seen.now) for gate in gates),
        *(room.look_again(gate, seen.now) for gate in gates),
        *(idle_policy.look_again(seen.gate, gate) for gate in gates),
    )


def _earliest(*pauses: timedelta | None) -> timedelta | None:
    return min((pause for pause in pauses if pause is not None), default=None)


def _silent_for(view: View[Any, Any]) -> timedelta:
    """For how long it has been unready because it did not answer when it was asked."""
    ready = condition(view.seen.status, ConditionType.READY)
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.NOT_ANSWERING:
        return timedelta(0)
    passed: timedelta = view.seen.now - since
    return passed


def held(decision: Decision[R]) -> bool:
    """Whether requests are held."""
    return decision.sleep_state is not None and decision.sleep_state.gate is not GateState.OPEN


def _blocked(seen: S, ways: Ways[S, V, R]) -> Problem | None:
    """What keeps the spec from being applied; None when nothing does."""
    if seen.subject is None or seen.problems:
        said = "; ".join(seen.problems) or "the spec cannot be read"
        return Problem(Reason.INVALID_SPEC, said, stalled=True)
    lacking = ways.hinders(seen)
    if lacking is not None:
        return lacking
    if seen.foreign:
        said = f"{', '.join(seen.foreign)} belongs to somebody else: remove it, or rename the {ways.kind}"
        return Problem(Reason.NAME_TAKEN, said, stalled=True)
    if seen.refusal:
        said = f"the API server refused {excerpt(seen.refusal, _REFUSAL_LIMIT)}"
        return Problem(Reason.REFUSED, said, stalled=True)
    return None
