"""How long a gateway may take to find pods that answer before the status says that none does."""

from datetime import datetime, timedelta

from daybreak.api.gates.gate_state import GateState
from daybreak.gates.state_machine import SleepState
from daybreak.gates.traffic import Traffic

FINDING = timedelta(seconds=10)
"""How long a workload that was ready stays so although no gateway reaches it. After the gate has opened the
gateways have to find its pods: they hear of them with the gate, or just before it, and look every 250 ms. A
busy Serve proxy may miss two of their looks."""


def is_searching(state: SleepState, traffic: Traffic, now: datetime) -> bool:
    """Return whether gateways still have time to find a pod that answers."""
    return now - state.since < FINDING or traffic.unrouted < FINDING


def look_again(state: SleepState, traffic: Traffic, now: datetime) -> timedelta | None:
    """Return when that time is over; None: a gateway has found a pod, or none is needed."""
    if state.gate is not GateState.OPEN or traffic.routed:
        return None
    left = max(state.since + FINDING - now, FINDING - traffic.unrouted)
    return left if left > timedelta(0) else None
