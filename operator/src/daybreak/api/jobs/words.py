"""Words of their statuses. Each kind has more reasons, and says in its own words what all of them mean."""

from enum import StrEnum


class JobPhase(StrEnum):
    """One word on it. Each kind says in its own words what it means."""

    PENDING = "Pending"
    """Nothing of it runs."""
    STARTING = "Starting"
    """Its pods are starting."""
    RUNNING = "Running"
    """It does what it is for."""
    SUSPENDED = "Suspended"
    """It was stopped by `spec.suspend`."""
    SUCCEEDED = "Succeeded"
    """It has ended with its result."""
    FAILED = "Failed"
    """It has ended without."""


class JobConditionType(StrEnum):
    """The conditions, in the order in which they are written."""

    COMPLETE = "Complete"
    """True: it has ended with its result."""
    FAILED = "Failed"
    """True: it has ended without."""
    RECONCILING = "Reconciling"
    """True: on the way (kstatus: in progress)."""
    STALLED = "Stalled"
    """True: somebody has to act (kstatus: failed)."""


class JobReason(StrEnum):
    """The reasons that every such kind has."""

    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    RUNNING = "Running"
    """It does what it is for."""
    SUSPENDED = "Suspended"
    """`spec.suspend` is true."""
    FINISHED = "Finished"
    """It has its result."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec was changed after it had begun: it goes on as it began."""
    NAME_CONFLICT = "NameConflict"
    """An object of a name that Daybreak needs belongs to somebody else."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server refused an object; the message is its own."""
    POD_FAILED = "PodFailed"
    """A pod cannot start, such as for an image or a claim; the message is Kubernetes' own."""
    JOB_FAILED = "JobFailed"
    """Its job has failed; the message is the job's own."""
