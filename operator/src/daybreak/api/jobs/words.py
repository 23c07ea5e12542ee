"""Status values of the kinds that become one job.

Each kind has additional reasons, and documents the meaning of all of them.
"""

from enum import StrEnum


class JobPhase(StrEnum):
    """Phase of a job, for display. Each kind documents the meaning of its phases."""

    PENDING = "Pending"
    """No part of the job is running."""
    STARTING = "Starting"
    """The pods of the job are starting."""
    RUNNING = "Running"
    """The job is doing its work."""
    SUSPENDED = "Suspended"
    """The job was stopped by `spec.suspend`."""
    SUCCEEDED = "Succeeded"
    """The job has ended with its result."""
    FAILED = "Failed"
    """The job has ended without a result."""


class JobConditionType(StrEnum):
    """Condition types, in the order in which they are written."""

    COMPLETE = "Complete"
    """True if the job has ended with its result."""
    FAILED = "Failed"
    """True if the job has ended without a result."""
    RECONCILING = "Reconciling"
    """True if work is in progress (kstatus: in progress)."""
    STALLED = "Stalled"
    """True if action is required (kstatus: failed)."""


class JobReason(StrEnum):
    """Reasons that all kinds that become one job have."""

    PROGRESSING = "Progressing"
    """Work is in progress. The message names the awaited step."""
    RUNNING = "Running"
    """The job is doing its work."""
    SUSPENDED = "Suspended"
    """The field `spec.suspend` is true."""
    FINISHED = "Finished"
    """The job has its result."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is invalid. The message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec changed after the start of the job, which continues with its original spec."""
    NAME_CONFLICT = "NameConflict"
    """An object with a name that Daybreak needs has another owner."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server rejected an object. The message quotes the API server."""
    POD_FAILED = "PodFailed"
    """A pod cannot start, for example because of its image or a PVC. The message quotes Kubernetes."""
    JOB_FAILED = "JobFailed"
    """The job failed. The message quotes the job."""
