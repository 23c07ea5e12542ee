"""Status of an LLMBatch, written by the operator."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import MAX_AFTER, Condition
from daybreak.api.schema.base import ApiModel


class BatchPhase(StrEnum):
    """Phase of a batch, for display."""

    PENDING = "Pending"
    """No part of the batch is running."""
    STARTING = "Starting"
    """The pods or engines of the batch are starting."""
    RUNNING = "Running"
    """The model is answering rows."""
    SUSPENDED = "Suspended"
    """The batch was stopped by `spec.suspend` and continues when the field is false."""
    SUCCEEDED = "Succeeded"
    """Every row is in the output with an answer or an error, and at least one has an answer."""
    FAILED = "Failed"
    """The batch ended before every row was in the output, or every row failed. Answered rows are kept."""


class BatchConditionType(StrEnum):
    """Condition types, in the order in which they are written."""

    COMPLETE = "Complete"
    """True if every row is in the output."""
    FAILED = "Failed"
    """True if the batch ended before every row was in the output."""
    RECONCILING = "Reconciling"
    """True if work is in progress (kstatus: in progress)."""
    STALLED = "Stalled"
    """True if action is required (kstatus: failed)."""


class BatchReason(StrEnum):
    """Reasons that a condition of an LLMBatch can have."""

    PROGRESSING = "Progressing"
    """Work is in progress. The message names the awaited step."""
    RUNNING = "Running"
    """The model is answering rows."""
    SUSPENDED = "Suspended"
    """The field `spec.suspend` is true."""
    QUEUED = "Queued"
    """Kueue has not admitted the batch yet."""
    WAITING_FOR_ACCELERATORS = "WaitingForAccelerators"
    """LLMServices that need the same accelerators or CPUs are ahead of the batch in the accelerator queue.
    Answered rows are kept."""
    FINISHED = "Finished"
    """Every row is in the output."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is invalid. The message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec changed after the start of the batch, which continues with its original spec."""
    NAME_CONFLICT = "NameConflict"
    """An object with a name that Daybreak needs has another owner."""
    KUBERAY_NOT_INSTALLED = "KubeRayNotInstalled"
    """KubeRay is not installed: the API server has no RayJob resource."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server rejected an object. The message quotes the API server."""
    POD_FAILED = "PodFailed"
    """A pod cannot start, for example because of its image or a PVC. The message quotes Kubernetes."""
    INPUT_NOT_FOUND = "InputNotFound"
    """The input does not exist or is empty."""
    INPUT_INVALID = "InputInvalid"
    """The input does not have the format of `input.format` or of its file names."""
    INPUT_CHANGED = "InputChanged"
    """The input has changed since the start of the batch."""
    OUTPUT_NOT_EMPTY = "OutputNotEmpty"
    """The output contains data that does not belong to this batch."""
    TEMPLATE_INVALID = "TemplateInvalid"
    """A template is invalid. The message states the position."""
    COLUMN_NOT_FOUND = "ColumnNotFound"
    """No row of the input has a column that the requests need. The message names the available columns."""
    ACCESS_DENIED = "AccessDenied"
    """The pods have no permission to access the input or the output."""
    SERVICE_NOT_FOUND = "ServiceNotFound"
    """`serviceRef` names a missing object, or a model that the object does not serve. The batch continues
    automatically once the name exists."""
    SERVICE_REJECTED = "ServiceRejected"
    """The service of `serviceRef` rejects the whole batch, for example because an API key is missing."""
    TOO_MANY_ERRORS = "TooManyErrors"
    """More rows have failed than the spec allows, or all rows have failed."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    """The batch ran longer than `spec.activeDeadline`."""
    JOB_FAILED = "JobFailed"
    """The job of the batch failed more often than `spec.backoffLimit` allows. The message quotes the job."""


class RowCounts(ApiModel):
    """Numbers of rows."""

    total: Annotated[int, Field(ge=0)] = 0
    """Number of rows in the input."""
    done: Annotated[int, Field(ge=0)] = 0
    """Number of rows in the output, with an answer or an error."""
    failed: Annotated[int, Field(ge=0)] = 0
    """Number of rows in the output with an error."""


class TokenCounts(ApiModel):
    """Numbers of tokens of the rows that are in the output."""

    prompt: Annotated[int, Field(ge=0)] = 0
    """Number of prompt tokens."""
    completion: Annotated[int, Field(ge=0)] = 0
    """Number of answer tokens."""


class LLMBatchStatus(ApiModel):
    """Observed state of the LLMBatch."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    phase: BatchPhase | None = None
    """Phase of the batch, for display."""
    progress: Annotated[str, Field(max_length=64)] | None = None
    """Progress of the batch for display, such as `1250/2000`."""
    rows: RowCounts | None = None
    """Numbers of rows in the input and the output."""
    tokens: TokenCounts | None = None
    """Numbers of tokens of the rows that are in the output."""
    rows_per_second: float | None = None
    """Number of rows written per second, over the last minute."""
    tokens_per_second: float | None = None
    """Number of prompt and answer tokens per second, over the last minute."""
    expected_completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Expected time of completion at the current rate."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time when the first job of the batch was created."""
    completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time when the batch ended."""
    accelerators: Annotated[int, Field(ge=0)] = 0
    """Number of accelerators that the pods of the batch have allocated."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Cost of the batch in accelerator-seconds: for each accelerator, the seconds for which it was allocated,
    summed."""
    accelerator_seconds_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time up to which `acceleratorSeconds` is counted."""
    errors: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=3)] | None = None
    """Errors of the first rows that failed."""
    queued_behind: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """Workloads, as `namespace/name`, that are ahead of the batch in the accelerator queue. The batch has
    released its accelerators and continues when these workloads are scheduled."""
    job_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the spec with which the batch started, without fields that may change."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Complete, Failed, Reconciling, Stalled."""
