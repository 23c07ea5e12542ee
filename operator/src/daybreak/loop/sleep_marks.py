"""Common loop steps of all kinds behind a gateway: status before action, and metrics of sleep and wake."""

from collections.abc import Iterable

from daybreak.api.gates.gate_status import GateStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.controller.writer import StatusWrite
from daybreak.gates.sleep_state import SleepState
from daybreak.loop import sleep_metrics
from daybreak.manifests.keys import OwnerKey

Turned = tuple[SleepState | None, SleepState | None]
"""State of a gate in the status, and its newly decided state."""


def turned_awake(gates: Iterable[Turned]) -> bool:
    """Return True if a decision ends a sleep that the status shows.

    The plan is for that sleep and must not be applied yet: workers that it deletes would have to be recreated
    at once. The wake is written first, and the next reconcile makes a new plan.
    """
    return any(
        before is not None and after is not None and before.asleep is not None and after.asleep is None
        for before, after in gates
    )


def sleep_differs(gates: Iterable[Turned]) -> bool:
    """Return True if the decided depth of sleep differs from the status.

    The depth is written before it is applied, so that an operator that continues after a crash knows it.
    """
    return any(
        before is not None and after is not None and before.asleep != after.asleep for before, after in gates
    )


def see(owner: OwnerKey, savings: SavingsStatus | None, gate: GateStatus | None) -> None:
    """Update metrics from a status; None if the status has no value or the workload was deleted."""
    sleep_metrics.SAVINGS.see(owner, savings)
    sleep_metrics.IDLE_TIMES.see(owner, gate)
    sleep_metrics.EXPECTED_WAITS.see(owner, gate)


def count(owner: OwnerKey, report: StatusWrite) -> None:
    """Count the ended wakes, and the yields to other workloads.

    A gate that has closed to yield does not count yet: a request may cancel the drain.
    """
    sleep_metrics.count_wakes(owner, report.before, report.after)
    sleep_metrics.count_yields(owner, report.before, report.after)
