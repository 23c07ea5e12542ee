"""Describe a workload: a pure function of the last observation and the decision."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.moments import Moments
from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.decision import Decided
from daybreak.workloads.gate_report import gates_of
from daybreak.workloads.kind_functions import GatedStatus, KindFunctions
from daybreak.workloads.observed import Observed
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.transition import earliest, look_again

ASK_AGAIN = (timedelta(seconds=2), timedelta(minutes=2))
"""Minimum and maximum pause before models without an answer are probed again."""
_PATIENCE = 8
"""Divisor: the pause is the time without an answer divided by this number."""

S = TypeVar("S", bound=Observed[Any])
V = TypeVar("V", bound=Assessed)
R = TypeVar("R", bound=GatedStatus)


@dataclass(frozen=True)
class Report(Generic[R]):
    """Report on a workload."""

    status: R
    look_again: timedelta | None
    """Time until the next reconcile without an event, or None if only an event triggers it."""


def report(observed: S, view: V | None, decided: Decided, ways: KindFunctions[S, V, R]) -> Report[R]:
    """Return the report of a workload, with the time of its next reconcile.

    Args:
        observed: The last observation, after objects were written.
        view: The same observation, assessed, or None if the object cannot be read or is being deleted.
        decided: The decision on the observation before.
        ways: Functions of the kind.
    """
    if view is None:
        if at(observed.manifest, "metadata").get("deletionTimestamp"):
            return Report(ways.as_before(observed, Reason.TERMINATING, "it is being deleted"), None)
        blocked = ways.blocked(observed)
        message = blocked.message if blocked is not None else ""
        return Report(ways.as_before(observed, Reason.INVALID_SPEC, message), None)
    assessed = view.assess()
    gates = gates_of(observed, assessed, decided.states, view.timeline())
    moments = Moments(observed.now)
    status = ways.status(view, Outcome(view.blocked, gates, moments, decided.rolled))
    written = status.gate.models if status.gate is not None else []
    again = earliest(
        decided.look_again,
        moments.look_again,
        look_again(observed, decided.states, written),
        ways.look_again(view, status),
        decided.asking.later,
    )
    if decided.asking.now:
        shortest, longest = ASK_AGAIN
        again = earliest(again, min(max(_silent_for(observed) / _PATIENCE, shortest), longest))
    return Report(status, again)


def _silent_for(observed: Observed[Any]) -> timedelta:
    """Return the time for which the workload has been unready because a model did not answer a probe."""
    ready = condition(observed.status, ConditionType.READY)
    since = parse_time(text(ready.get("lastTransitionTime")))
    if since is None or ready.get("reason") != Reason.PROBE_FAILED:
        return timedelta(0)
    return observed.now - since
