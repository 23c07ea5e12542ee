"""State of a gate, as the status reports it and the gateway applies it."""

from enum import StrEnum


class GateState(StrEnum):
    """Action of the gateway for a request that arrives."""

    OPEN = "Open"
    """Requests are forwarded to the models."""
    CLOSED = "Closed"
    """Requests are held until the gate opens."""
    FAILED = "Failed"
    """Requests, including held ones, are rejected with the reason."""
