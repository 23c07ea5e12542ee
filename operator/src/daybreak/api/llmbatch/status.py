"""What the operator says of an LLMBatch."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import MAX_AFTER, Condition
from daybreak.api.schema.base import ApiModel


class BatchPhase(StrEnum):
    """One word on a batch."""

    PENDING = "Pending"
    """Nothing of it runs."""
    STARTING = "Starting"
    """Its pods or engines are starting."""
    RUNNING = "Running"
    """Rows are being answered."""
    SUSPENDED = "Suspended"
    """It was stopped by `spec.suspend`, and goes on when that is false."""
    SUCCEEDED = "Succeeded"
    """Every row is in the output, with an answer or its error, and one at least with an answer."""
    FAILED = "Failed"
    """It has ended before that, or every row has failed; what was answered is kept."""


class BatchConditionType(StrEnum):
    """The conditions, in the order in which they are written."""

    COMPLETE = "Complete"
    """True: every row is in the output."""
    FAILED = "Failed"
    """True: it has ended before that."""
    RECONCILING = "Reconciling"
    """True: on the way (kstatus: in progress)."""
    STALLED = "Stalled"
    """True: somebody has to act (kstatus: failed)."""


class BatchReason(StrEnum):
    """Every reason that a condition of an LLMBatch can carry."""

    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    RUNNING = "Running"
    """Rows are being answered."""
    SUSPENDED = "Suspended"
    """`spec.suspend` is true."""
    QUEUED = "Queued"
    """Kueue has not admitted it yet."""
    WAITING_FOR_ACCELERATORS = "WaitingForAccelerators"
    """LLMServices that wait for the same accelerators, or cores, come before it; what is answered is kept."""
    FINISHED = "Finished"
    """Every row is in the output."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec was changed after the batch had begun: it goes on as it began."""
    NAME_CONFLICT = "NameConflict"
    """An object of a name that Daybreak needs belongs to somebody else."""
    KUBERAY_NOT_INSTALLED = "KubeRayNotInstalled"
    """The API server knows no RayJob: KubeRay is not installed."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server refused an object; the message is its own."""
    POD_FAILED = "PodFailed"
    """A pod cannot start, such as for an image or a claim; the message is Kubernetes' own."""
    INPUT_NOT_FOUND = "InputNotFound"
    """The input is not there, or is empty."""
    INPUT_INVALID = "InputInvalid"
    """The input cannot be read as what it is said to be."""
    INPUT_CHANGED = "InputChanged"
    """The input is another one than when the batch began."""
    OUTPUT_NOT_EMPTY = "OutputNotEmpty"
    """The output holds something that is not of this batch."""
    TEMPLATE_INVALID = "TemplateInvalid"
    """A template is not one; the message says where."""
    COLUMN_NOT_FOUND = "ColumnNotFound"
    """No row of the input has a column that requests are made of; the message names those that there are."""
    ACCESS_DENIED = "AccessDenied"
    """The pods have no right to the input or the output."""
    SERVICE_NOT_FOUND = "ServiceNotFound"
    """`serviceRef` names what is not there, or a name that it does not answer to. It goes on by itself."""
    SERVICE_REJECTED = "ServiceRejected"
    """The service of `serviceRef` refuses the batch as a whole, such as for a missing API key."""
    TOO_MANY_ERRORS = "TooManyErrors"
    """More rows have failed than may, or all of them."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    """It has run longer than `spec.activeDeadline`."""
    JOB_FAILED = "JobFailed"
    """Its job has failed more often than `spec.backoffLimit`; the message is the job's own."""


class RowCounts(ApiModel):
    """Rows."""

    total: Annotated[int, Field(ge=0)] = 0
    """Rows of the input."""
    done: Annotated[int, Field(ge=0)] = 0
    """Rows that are in the output, with an answer or an error."""
    failed: Annotated[int, Field(ge=0)] = 0
    """Those of them that have an error."""


class TokenCounts(ApiModel):
    """Tokens of the rows that are in the output."""

    prompt: Annotated[int, Field(ge=0)] = 0
    """Tokens of prompts."""
    completion: Annotated[int, Field(ge=0)] = 0
    """Tokens of answers."""


class LLMBatchStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: BatchPhase | None = None
    """One word on the batch."""
    progress: Annotated[str, Field(max_length=64)] | None = None
    """How far it is, such as `1250/2000`."""
    rows: RowCounts | None = None
    """Rows."""
    tokens: TokenCounts | None = None
    """Tokens."""
    rows_per_second: float | None = None
    """Rows written in each second, over the last minute."""
    tokens_per_second: float | None = None
    """Tokens of prompts and answers in each second, over the last minute."""
    expected_completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it is done, at this rate."""
    start_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When its first job was made."""
    completion_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it ended."""
    accelerators: Annotated[int, Field(ge=0)] = 0
    """Accelerators that its pods hold."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What it has cost: the sum over its accelerators of the seconds that they were held."""
    accelerator_seconds_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Until when that is counted."""
    errors: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=3)] | None = None
    """Why the first rows have failed."""
    queued_behind: Annotated[list[str], Field(max_length=MAX_AFTER)] | None = None
    """Workloads, as `namespace/name`, that wait for the same accelerators and come before it: it has given
    back what it held, and goes on when they have room."""
    job_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of what the batch began with."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Complete, Failed, Reconciling, Stalled."""
