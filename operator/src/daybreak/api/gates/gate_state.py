"""The state of a gate, in the words of the status: the gateway goes by it."""

from enum import StrEnum


class GateState(StrEnum):
    """What the gateway does with a request that arrives."""

    OPEN = "Open"
    """It goes to the models."""
    CLOSED = "Closed"
    """It is held until the gate opens."""
    FAILED = "Failed"
    """It is refused with the reason, and so are requests that are held."""
