"""Assessment of the model behind one gate, without its requests and its position in the accelerator queue."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Assessment:
    """The model behind one gate at one time. Sleep decisions use it, and the status describes it."""

    answering: bool
    """True if a request is answered, possibly after a wake."""
    drain: timedelta
    """Maximum time for requests in progress when the model's pods end."""
    failed: str
    """Reason why the model cannot start, for clients. Empty if it can."""
    updating: bool
    """True while a change of the spec is being rolled out to the model."""
    hindered: bool
    """True if a problem is known, such as a second Ray cluster that cannot be scheduled."""
    has_room: bool
    """True if the pods of one replica have a node."""
    lacks_room: bool
    """True if the model wakes from sleep and the pods of one replica have no node yet."""
    gpus: int
    """Accelerators that the model's pods hold."""
    gpus_awake: int
    """Accelerators that the model's minimum replicas hold while it is awake."""
