"""What the status says of the accelerators that a workload has held, and of those that sleep has saved."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel

Seconds = Annotated[float, Field(ge=0)]
"""Accelerators times seconds."""
Count = Annotated[int, Field(ge=0)]


class SavingsStatus(ApiModel):
    """Accelerator seconds, counted when the number of accelerators changes: for those of this moment, add the
    numbers of now times the seconds since `until`."""

    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the count began."""
    update_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Until when the sums are counted."""
    awake_seconds: Seconds = 0.0
    """While awake, whether somebody asked or not."""
    waking_seconds: Seconds = 0.0
    """On the way up, before the first answer: what sleep costs."""
    saved_seconds: Seconds = 0.0
    """What it would have held if it had not slept."""
    contended_seconds: Seconds | None = None
    """Of `held`: as many accelerators as pods of others wanted that found no room meanwhile. Where several
    services hold what one waits for, each counts it. Absent: nobody has waited yet."""
    awake: Count = 0
    """Accelerators held awake since `until`."""
    waking: Count = 0
    """Accelerators held on the way up since `until`."""
    saved: Count = 0
    """Accelerators given back since `until`."""
    contended: Count | None = None
    """Accelerators held since `until` that others wait for; absent: nobody waits."""
