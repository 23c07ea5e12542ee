"""Decide on a workload and describe it without applying anything, for tests of decisions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from daybreak.gates.sleep_state import SleepState
from daybreak.workloads import decision, reporting
from daybreak.workloads.assessed import Assessed
from daybreak.workloads.kind_functions import GatedStatus, KindFunctions
from daybreak.workloads.observed import Observed

S = TypeVar("S", bound=Observed[Any])
V = TypeVar("V", bound=Assessed)
R = TypeVar("R", bound=GatedStatus)


@dataclass(frozen=True)
class Decision(Generic[R]):
    """Decision on a workload and the status that describes it."""

    apply: bool
    ask: tuple[str, ...]
    """Gates whose models must be probed."""
    status: R
    sleep_states: Mapping[str, SleepState]
    requeue_after: timedelta | None

    @property
    def sleep_state(self) -> SleepState | None:
        """Return the state of the only gate."""
        return next(iter(self.sleep_states.values()), None)


def decided(observed: S, ways: KindFunctions[S, V, R]) -> Decision[R]:
    """Decide on a workload, and describe it."""
    view = ways.read(observed)
    found = decision.decide(view, ways.course)
    report = reporting.report(observed, view, found, ways)
    apply = found.apply and not observed.refusal
    return Decision(apply, found.asking.now, report.status, found.states, report.look_again)
