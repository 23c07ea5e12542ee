"""What a kind makes of a workload: how it is assessed, and how its status is written."""

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
            return Problem(Reason.NAME_CONFLICT, said, stalled=True)
        if seen.refusal:
            said = f"the API server refused {excerpt(seen.refusal, REFUSAL_LIMIT)}"
            return Problem(Reason.OBJECT_REJECTED, said, stalled=True)
        return None


def _taken(kind: str, namespace: str, foreign: Sequence[str]) -> str:
    one = len(foreign) == 1
    return (
        f"{', '.join(foreign)} already {'exists' if one else 'exist'} in {namespace} and "
        f"{'belongs' if one else 'belong'} to somebody else: remove {'it' if one else 'them'}, "
        f"or give the {kind} another name"
    )
