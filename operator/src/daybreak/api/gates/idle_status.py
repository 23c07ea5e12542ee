"""What the status says of the pauses between requests, and of the idle time that follows from them."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel

PAUSE_CLASSES = 23
"""Classes of length by which pauses are remembered: up to a day and a half."""

_Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class IdleStatus(ApiModel):
    """The pauses between a model's requests, of a minute or longer, and when it should sleep in the next."""

    start_time: _Time | None = None
    """When the pause began in which it was put to sleep; absent when that has ended."""
    last_end_time: _Time | None = None
    """When the last pause ended that is among `pauses`."""
    pauses: Annotated[
        list[Annotated[float, Field(ge=0)]],
        Field(max_length=PAUSE_CLASSES),
    ] = Field(default_factory=list)
    """How many pauses were of each length: the first of 1 to 1.4 minutes, and each further one √2 times as
    long. A pause counts 1 when it ends, and takes a 64th of what is there before it."""
    break_even_seconds: Annotated[int, Field(ge=0)] | None = None
    """The pause in which holding the accelerators costs as much as giving them back and waking: the median of
    its own wakes. Absent before the first one was measured."""
    recommended_after_idle: Annotated[str, Field(max_length=32)] | None = None
    """The `sleep.afterIdle` that costs least over these pauses, between the bounds of `sleep.auto`. Absent
    while too little is known."""
    after_idle: Annotated[str, Field(max_length=32)] | None = None
    """With `sleep.afterIdle: Auto`: what it is at present."""
    reason: Annotated[str, Field(max_length=512)] | None = None
    """Why so."""
