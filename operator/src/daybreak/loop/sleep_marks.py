"""What the loops of all kinds behind a gateway have in common: what stands in the status before it is done,
and what is counted of sleep and wake."""

from collections.abc import Iterable

from daybreak.api.gates.gate_status import GateStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.controller.writer import Said
from daybreak.gates.sleep_state import SleepState
from daybreak.loop import sleep_metrics
from daybreak.manifests.keys import OwnerKey

Turned = tuple[SleepState | None, SleepState | None]
"""The state of a gate that stands in the status, and the one that was decided on."""


def turned_awake(gates: Iterable[Turned]) -> bool:
    """Whether a decision ends a sleep that stands in the status.

    What was planned is of that sleep, and may not be carried out yet: workers that were taken now would have
    to be made again at once. That it wakes is written first, and the next reconcile plans anew.
    """
    return any(
        before is not None and after is not None and before.asleep is not None and after.asleep is None
        for before, after in gates
    )


def sleep_differs(gates: Iterable[Turned]) -> bool:
    """Whether what is given back is to be other than the status says.

    It is written before it is carried out: whoever goes on after a crash knows of it.
    """
    return any(
        before is not None and after is not None and before.asleep != after.asleep for before, after in gates
    )


def see(owner: OwnerKey, savings: SavingsStatus | None, gate: GateStatus | None) -> None:
    """Have metrics say what a status says; None: nothing, or the workload has gone."""
    sleep_metrics.SAVINGS.see(owner, savings)
    sleep_metrics.IDLE_TIMES.see(owner, gate)
    sleep_metrics.EXPECTED_WAITS.see(owner, gate)


def count(owner: OwnerKey, said: Said) -> None:
    """Count the wakes that have ended, and what was given back for others' sake.

    A gate that has closed for that gives nothing back yet: a request may turn it round.
    """
    sleep_metrics.count_wakes(owner, said.before, said.after)
    sleep_metrics.count_yields(owner, said.before, said.after)
