"""Status of the pauses between requests, and of the idle time that is derived from them."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel

PAUSE_CLASSES = 23
"""Number of length classes for recorded pauses; the last class begins at about a day and a half."""

_Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class IdleStatus(ApiModel):
    """Pauses of at least one minute between a model's requests, and the idle time recommended from them."""

    start_time: _Time | None = None
    """Time at which the pause began in which the model was put to sleep. Absent after the pause has ended."""
    last_end_time: _Time | None = None
    """Time at which the last pause in `pauses` ended."""
    pauses: Annotated[
        list[Annotated[float, Field(ge=0)]],
        Field(max_length=PAUSE_CLASSES),
    ] = Field(default_factory=list)
    """Weighted number of pauses in each length class. The first class is 1 to 1.4 minutes, and each further
    class is √2 times as long. When a pause ends, all counts decrease by 1/64, and the count of its class
    increases by 1."""
    break_even_seconds: Annotated[int, Field(ge=0)] | None = None
    """Pause, in seconds, for which keeping the accelerators costs as much as releasing them and waking. The
    value is the median of the model's own wakes. Absent until a wake has been measured."""
    recommended_after_idle: Annotated[str, Field(max_length=32)] | None = None
    """Value of `sleep.afterIdle` with the lowest cost over these pauses, within the bounds of `sleep.auto`.
    Absent while too few pauses or no wakes are known."""
    after_idle: Annotated[str, Field(max_length=32)] | None = None
    """Current idle time with `sleep.afterIdle: Auto`."""
    reason: Annotated[str, Field(max_length=512)] | None = None
    """Explanation of the recommended idle time, or of its absence."""
