"""Status of the accelerators that a workload uses, and of those that sleep saves."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel

Seconds = Annotated[float, Field(ge=0)]
"""Number of accelerators multiplied by seconds."""
Count = Annotated[int, Field(ge=0)]


class SavingsStatus(ApiModel):
    """Accelerator-seconds, updated when the number of accelerators changes.

    For a current sum, add the current number multiplied by the seconds since `updateTime`.
    """

    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the count began."""
    update_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time up to which the sums are counted."""
    awake_seconds: Seconds = 0.0
    """Accelerator-seconds of awake models, with or without requests."""
    waking_seconds: Seconds = 0.0
    """Accelerator-seconds of waking models before their first answer: the cost of sleep."""
    saved_seconds: Seconds = 0.0
    """Accelerator-seconds that the workload would have used without sleep."""
    contended_seconds: Seconds | None = None
    """Part of `awakeSeconds` for which unschedulable pods of other workloads waited. If several services use
    the accelerators that one workload waits for, each service counts the wait. Absent if no workload has
    waited yet."""
    awake: Count = 0
    """Number of accelerators of awake models since `updateTime`."""
    waking: Count = 0
    """Number of accelerators of waking models since `updateTime`."""
    saved: Count = 0
    """Number of accelerators released by sleep since `updateTime`."""
    contended: Count | None = None
    """Number of accelerators, in use since `updateTime`, for which other workloads wait. Absent if no
    workload waits."""
