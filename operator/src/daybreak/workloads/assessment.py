"""What is known of the model behind one gate, apart from its requests and its turn."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Assessment:
    """The model behind one gate at one moment. Sleep is decided on it, and the status describes it."""

    answering: bool
    """Whether a request is answered, if need be after a wake."""
    drain: timedelta
    """How long requests in progress may take at the end of its pods."""
    failed: str
    """Why it cannot start, in words for clients; empty if it can."""
    updating: bool
    """Whether a change of the spec is on its way to it."""
    hindered: bool
    """Whether a problem is known, such as a second Ray cluster that finds no room."""
    has_room: bool
    """Whether the pods of one replica have a node."""
    lacks_room: bool
    """Whether it wakes from sleep and the pods of one replica have found no node yet."""
    gpus: int
    """Accelerators that its pods hold."""
    gpus_awake: int
    """Accelerators that its fewest replicas hold when it is awake."""
