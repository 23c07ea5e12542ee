"""The functions of a kind that assess a workload and write its status."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at
from daybreak.api.gates.gate_status import GateStatus
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.observed import Observed
from daybreak.workloads.outcome import Outcome
from daybreak.workloads.rolled import REFUSAL_LIMIT, Course


class GatedStatus(Protocol):
    """The status of a workload behind a gateway."""

    @property
    def gate(self) -> GateStatus | None:
        """The gates of the status: how the gateway must treat requests."""
        ...

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the status as plain values."""
        ...


S = TypeVar("S", bound=Observed[Any])
V = TypeVar("V", bound=Assessed)
R = TypeVar("R", bound=GatedStatus)


@dataclass(frozen=True)
class KindFunctions(Generic[S, V, R]):
    """Functions of a kind that assess a workload and write its status."""

    kind: str
    """Name of the kind."""
    view: Callable[[S, Problem | None], V]
    """Assesses an observation, with the problem that prevents the operator from applying the spec."""
    status: Callable[[V, Outcome], R]
    """Builds the status of a readable workload, after a decision."""
    as_before: Callable[[S, Reason, str], R]
    """Builds the status of a deleted or unreadable object, which keeps the previous fields."""
    course: Callable[[V], Course]
    """Returns the facts about a rollout of a workload whose spec can be built."""
    hinders: Callable[[S], Problem | None] = lambda _: None
    """Returns the problem if the cluster lacks a requirement of the kind, or None."""
    look_again: Callable[[V, R], timedelta | None] = lambda *_: None
    """Returns the time until the next reconcile for reasons of the kind."""

    def read(self, observed: S) -> V | None:
        """Assess an observation, or return None if the spec cannot be read or the object is being deleted."""
        if at(observed.manifest, "metadata").get("deletionTimestamp") or observed.subject is None:
            return None
        return self.view(observed, self.blocked(observed))

    def blocked(self, observed: S) -> Problem | None:
        """Return the problem that prevents the operator from applying the spec, or None."""
        if observed.subject is None or observed.problems:
            message = "; ".join(observed.problems) or "the spec cannot be read"
            return Problem(Reason.INVALID_SPEC, message, stalled=True)
        lacking = self.hinders(observed)
        if lacking is not None:
            return lacking
        if observed.foreign:
            message = _taken(self.kind, observed.subject.namespace, observed.foreign)
            return Problem(Reason.NAME_CONFLICT, message, stalled=True)
        if observed.refusal:
            message = f"the API server refused {excerpt(observed.refusal, REFUSAL_LIMIT)}"
            return Problem(Reason.OBJECT_REJECTED, message, stalled=True)
        return None


def _taken(kind: str, namespace: str, foreign: Sequence[str]) -> str:
    one = len(foreign) == 1
    return (
        f"{', '.join(foreign)} already {'exists' if one else 'exist'} in {namespace} and "
        f"{'is' if one else 'are'} not managed by Daybreak: delete {'it' if one else 'them'}, "
        f"or rename the {kind}"
    )
