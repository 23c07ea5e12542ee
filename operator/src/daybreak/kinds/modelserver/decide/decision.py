"""What to do next about a ModelServer, and what to say of it: a pure function of what is seen.

As for an LLMService, the only memory is the status itself.
"""

from dataclasses import dataclass
from datetime import timedelta

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.api.gates.gate_status import GateState
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.gates import idle_policy
from daybreak.gates.schedule import next_change
from daybreak.gates.sleep_policy import node_wait, told_to_clients
from daybreak.gates.state_machine import Health, SleepState, look_again, step
from daybreak.kinds.modelserver.decide import autoscaling
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.status import conditions, report
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt

ASK_AGAIN = (timedelta(seconds=2), timedelta(minutes=2))
"""Shortest and longest pause before a model that has not answered is asked again."""
_PATIENCE = 8
"""The pause is this fraction of the time for which it has been silent."""
_REFUSAL_LIMIT = 2000


@dataclass(frozen=True)
class Decision:
    """What to do, and what to say."""

    apply: bool
    """Whether its objects shall be made what they should be."""
    ask: bool
    """Whether its model is to be asked for an answer."""
    status: ModelServerStatus
    sleep_state: SleepState | None
    """Its sleep and wake from here on; None without a gateway."""
    requeue_after: timedelta | None
    """When to look again although nothing has happened; None: not before something happens."""


def decide(seen: Observed) -> Decision:
    """Decide on a ModelServer."""
    if at(seen.manifest, "metadata").get("deletionTimestamp"):
        return Decision(False, False, report.as_before(seen, Reason.TERMINATING), seen.sleep_state, None)
    blocked = _blocked(seen)
    if seen.server is None:
        said = blocked.message if blocked is not None else ""
        return Decision(False, False, report.as_before(seen, Reason.INVALID_SPEC, said), None, None)
    view = View(seen, seen.server)
    stalled = blocked or (view.problem if view.problem is not None and view.problem.stalled else None)
    state = _step(view, stalled)
    status = report.status(view, blocked, state)
    again = _look_again(view, state, status)
    if blocked is not None:
        return Decision(False, False, status, state, again)
    if view.ask:
        shortest, longest = ASK_AGAIN
        again = _earliest(again, min(max(_silent_for(view) / _PATIENCE, shortest), longest))
    return Decision(True, view.ask, status, state, again)


def _step(view: View, stalled: Problem | None) -> SleepState | None:
    seen = view.seen
    if seen.gateway is None or seen.sleep_state is None:
        return None
    failed = "" if view.answering or stalled is None else told_to_clients([stalled.message])
    health = Health(
        answers=view.answering,
        failed=failed,
        updating=view.updating,
        hindered=view.problem is not None,
        waits=view.no_room,
        gives_way=bool(seen.turn.gives_way_to),
    )
    return step(seen.sleep_state, seen.sleep_policy, seen.gateway.traffic, health, seen.now)


def _look_again(view: View, state: SleepState | None, status: ModelServerStatus) -> timedelta | None:
    seen = view.seen
    if state is None or seen.gateway is None:
        return None
    policy, traffic = seen.sleep_policy, seen.gateway.traffic
    gates = status.gate.models if status.gate is not None else []
    return _earliest(
        look_again(state, policy, traffic, seen.now),
        conditions.look_again(state, traffic, seen.now),
        next_change(policy.sleep.schedule if policy.sleep is not None else (), seen.now),
        seen.turn.look_again,
        autoscaling.LOOK if status.autoscaling is not None else None,
        *(node_wait(gate, seen.now) for gate in gates),
        *(idle_policy.look_again(seen.gate, gate) for gate in gates),
    )


def _earliest(*pauses: timedelta | None) -> timedelta | None:
    return min((pause for pause in pauses if pause is not None), default=None)


def _silent_for(view: View) -> timedelta:
    """For how long it has been unready because its model did not answer when it was asked."""
    ready = condition(view.seen.status, ConditionType.READY)
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.NOT_ANSWERING:
        return timedelta(0)
    return view.seen.now - since


def held(decision: Decision) -> bool:
    """Whether requests are held."""
    return decision.sleep_state is not None and decision.sleep_state.gate is not GateState.OPEN


def _blocked(seen: Observed) -> Problem | None:
    """What keeps the spec from being applied; None when nothing does."""
    if seen.server is None or seen.problems:
        said = "; ".join(seen.problems) or "the spec cannot be read"
        return Problem(Reason.INVALID_SPEC, said, stalled=True)
    if seen.foreign:
        said = f"{', '.join(seen.foreign)} belongs to somebody else: remove it, or rename the ModelServer"
        return Problem(Reason.NAME_TAKEN, said, stalled=True)
    if seen.refusal:
        said = f"the API server refused {excerpt(seen.refusal, _REFUSAL_LIMIT)}"
        return Problem(Reason.REFUSED, said, stalled=True)
    return None
