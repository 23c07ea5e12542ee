"""Status of an LLMBenchmark, written by the operator."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.base import ApiModel

STEP_LIMIT = 256
"""Maximum number of steps of a benchmark."""
RUN_LIMIT = 10
"""Maximum number of runs of a schedule that are recorded."""
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class BenchmarkPhase(StrEnum):
    """Phase of a benchmark, for display."""

    PENDING = "Pending"
    """No part of the benchmark is running."""
    STARTING = "Starting"
    """The pod of the benchmark is starting."""
    RUNNING = "Running"
    """The benchmark is starting engines and measuring loads."""
    SUSPENDED = "Suspended"
    """The benchmark was stopped by `spec.suspend` and restarts when the field is false."""
    SUCCEEDED = "Succeeded"
    """The benchmark has ended. The steps and the best one are in the status."""
    FAILED = "Failed"
    """The benchmark has ended without a result."""


class BenchmarkConditionType(StrEnum):
    """Condition types, in the order in which they are written."""

    COMPLETE = "Complete"
    """True if the benchmark has ended with a result."""
    FAILED = "Failed"
    """True if the benchmark has ended without a result."""
    RECONCILING = "Reconciling"
    """True if work is in progress (kstatus: in progress)."""
    STALLED = "Stalled"
    """True if action is required (kstatus: failed)."""
    APPLIED = "Applied"
    """True if the LLMService runs with the best settings, which `applyMode: Patch` has written. Absent
    without `applyMode: Patch`."""


class PatchState(StrEnum):
    """State of the patch that writes the best settings into the LLMService."""

    WRITING = "Writing"
    """The operator is about to write the settings."""
    ROLLING_OUT = "RollingOut"
    """The settings are written, and the service rolls them out with its own strategy."""
    ROLLED_OUT = "RolledOut"
    """The service runs with the settings and has answered."""
    ROLLED_BACK = "RolledBack"
    """The service could not start with the settings and runs with the previous ones."""
    ROLLOUT_FAILED = "RolloutFailed"
    """The service could not start with the settings, and its rollout is not rolled back."""
    OVERWRITTEN = "Overwritten"
    """Another client has since written other values."""
    NOT_WRITTEN = "NotWritten"
    """No settings were written. The message states the reason."""
    PATCH_REJECTED = "PatchRejected"
    """The API server rejected the patch. The message quotes the API server."""


UNDER_WAY = (PatchState.WRITING, PatchState.ROLLING_OUT)
"""States that are not final."""


class BenchmarkReason(StrEnum):
    """Reasons that a condition of an LLMBenchmark can have."""

    PROGRESSING = "Progressing"
    """Work is in progress. The message names the awaited step."""
    RUNNING = "Running"
    """The benchmark is measuring loads."""
    SUSPENDED = "Suspended"
    """The field `spec.suspend` is true."""
    SCHEDULED = "Scheduled"
    """The next run waits for its start time."""
    FINISHED = "Finished"
    """The steps are in the status. The message summarizes the result."""
    INVALID_SPEC = "InvalidSpec"
    """The spec is invalid. The message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec changed after the start of the benchmark, which continues with its original spec."""
    SERVICE_NOT_FOUND = "ServiceNotFound"
    """The LLMService of `serviceRef` or its model does not exist."""
    NAME_CONFLICT = "NameConflict"
    """An object with a name that Daybreak needs has another owner."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server rejected an object. The message quotes the API server."""
    POD_FAILED = "PodFailed"
    """The pod cannot start, for example because of its image or a PVC. The message quotes Kubernetes."""
    ENGINE_FAILED = "EngineFailed"
    """No engine started with the settings. The message quotes the engine."""
    NO_ANSWER = "NoAnswer"
    """No request was answered. The message contains the first error."""
    INPUT_NOT_FOUND = "InputNotFound"
    """The table of `load.traceFrom` does not exist."""
    INPUT_INVALID = "InputInvalid"
    """The table of `load.traceFrom` does not have two columns of whole numbers. The message names the row and
    its content."""
    ACCESS_DENIED = "AccessDenied"
    """The pod has no permission to access the destination of the report or the table of `load.traceFrom`."""
    JOB_FAILED = "JobFailed"
    """The Job of the benchmark failed. The message quotes Kubernetes."""
    WRITING = PatchState.WRITING.value
    """The operator is about to write the best settings into the LLMService."""
    ROLLING_OUT = PatchState.ROLLING_OUT.value
    """The best settings are written, and the LLMService rolls them out."""
    ROLLED_OUT = PatchState.ROLLED_OUT.value
    """The LLMService runs with the best settings."""
    ROLLED_BACK = PatchState.ROLLED_BACK.value
    """The LLMService could not start with the best settings and runs with the previous ones."""
    ROLLOUT_FAILED = PatchState.ROLLOUT_FAILED.value
    """The LLMService could not start with the best settings and is not rolled back automatically."""
    OVERWRITTEN = PatchState.OVERWRITTEN.value
    """Another client has since written other values."""
    NOT_WRITTEN = PatchState.NOT_WRITTEN.value
    """No settings were written into the LLMService. The message states the reason."""
    PATCH_REFUSED = PatchState.PATCH_REJECTED.value
    """The API server rejected the change of the LLMService. The message quotes the API server."""


class Percentiles(ApiModel):
    """Percentiles of a time in milliseconds."""

    p50: float = 0
    """Median: half of the requests were not slower."""
    p95: float = 0
    """95th percentile: 95 % of the requests were not slower."""
    p99: float = 0
    """99th percentile: 99 % of the requests were not slower."""


class StepStatus(ApiModel):
    """Result of one load on one engine."""

    settings: EngineArgs = Field(default_factory=dict)
    """Engine arguments that differ from the baseline. Empty for the baseline."""
    clients: int | None = None
    """Number of clients in a closed loop."""
    rate: float | None = None
    """Requests per second in an open loop."""
    requests_per_second: float = 0
    """Number of requests answered per second."""
    tokens_per_second: float = 0
    """Number of answer tokens per second."""
    requests: int = 0
    """Number of answered requests."""
    errors: int = 0
    """Number of failed requests."""
    ttft: Percentiles | None = None
    """Time to the first token."""
    tpot: Percentiles | None = None
    """Time per further token."""
    latency: Percentiles | None = None
    """Time to the end of the answer."""
    kv_cache: float | None = None
    """Maximum fraction of the KV cache that was in use, from 0 to 1."""
    running: float | None = None
    """Mean number of requests that the engine ran concurrently."""
    waiting: float | None = None
    """Mean number of requests that waited in the engine."""
    preemptions: int | None = None
    """Number of requests that the engine preempted because the KV cache was too small."""
    engine_ttft: float | None = None
    """Mean time to the first token in milliseconds, measured by the engine."""
    engine_tpot: float | None = None
    """Mean time per further token in milliseconds, measured by the engine."""
    failure: Annotated[str, Field(max_length=500)] | None = None
    """Reason for a missing measurement, or the limit that was exceeded."""


class GainStatus(ApiModel):
    """Comparison of the best step with the baseline."""

    ratio: float
    """Ratio of the best step to the baseline."""
    noise: float
    """Maximum difference between `ratio` and 1 that could be noise."""
    significant: bool
    """True if the best step is better than the baseline beyond noise."""


class PatchStatus(ApiModel):
    """Change that `applyMode: Patch` has written."""

    state: PatchState
    """State of the patch."""
    service: Annotated[str, Field(max_length=253)]
    """Name of the LLMService."""
    uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the LLMService."""
    model: Annotated[str, Field(max_length=253)] | None = None
    """Name of the model in the LLMService."""
    args: EngineArgs = Field(default_factory=dict)
    """Arguments that are written into the model's `engine.args`."""
    previous_args: EngineArgs = Field(default_factory=dict)
    """Previous values of the arguments. An argument that is missing here was not set."""
    generation: int | None = None
    """Generation of the LLMService that contains the arguments."""
    start_time: Moment | None = None
    """Time when the patch began."""
    message: Annotated[str, Field(max_length=2000)] | None = None
    """Outcome of the patch, for display."""


class ReportStatus(ApiModel):
    """Location of the report in the cluster."""

    config_map: Annotated[str, Field(max_length=253)] | None = None
    """Name of the ConfigMap that contains the report, which is deleted with the benchmark. Absent if the
    report could not be kept."""
    files: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=8)] = Field(
        default_factory=list
    )
    """Keys of the ConfigMap: `report.html`, `curve.png` and `results.json`, as far as they fit."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """Files that were not kept, and the reason."""


class RunStatus(ApiModel):
    """Completed run of the schedule."""

    schedule_time: Moment | None = None
    """Scheduled start time of the run."""
    start_time: Moment | None = None
    """Time when the Job of the run was created."""
    completion_time: Moment | None = None
    """Time when the run ended."""
    phase: BenchmarkPhase
    """Phase of the run: `Succeeded` or `Failed`."""
    reason: Annotated[str, Field(max_length=64)]
    """Reason of the run's condition."""
    message: Annotated[str, Field(max_length=500)] | None = None
    """Result of the run, for display."""
    best: StepStatus | None = None
    """Best step within the limits of `objective`."""
    gain: GainStatus | None = None
    """Comparison of the best step with the baseline of that run."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Cost of the run in accelerator-seconds."""


class LLMBenchmarkStatus(ApiModel):
    """Observed state of the LLMBenchmark."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    phase: BenchmarkPhase | None = None
    """Phase of the benchmark, for display."""
    progress: Annotated[str, Field(max_length=256)] | None = None
    """Current activity of the benchmark, for display."""
    recommendation: Annotated[str, Field(max_length=1024)] | None = None
    """Best settings so far, such as `max_num_seqs=16`, or `baseline` if no settings were better."""
    recommended: EngineArgs | None = None
    """Best settings so far, in the form of `engine.args`."""
    gain: GainStatus | None = None
    """Comparison of the best step with the baseline."""
    noise: float | None = None
    """Standard deviation of one measurement window over all steps, as a fraction of its value."""
    best: StepStatus | None = None
    """Best step within the limits of `objective`."""
    baseline: StepStatus | None = None
    """Best step with the unchanged engine arguments of the spec or the LLMService."""
    stop_reason: Annotated[str, Field(max_length=500)] | None = None
    """Reason for the end of the search."""
    engine_starts: int = 0
    """Number of engine starts."""
    steps: Annotated[list[StepStatus], Field(max_length=STEP_LIMIT)] = Field(default_factory=list)
    """All steps, in the order of their measurement."""
    start_time: Moment | None = None
    """Time when the Job was first created."""
    completion_time: Moment | None = None
    """Time when the benchmark ended."""
    accelerators: Annotated[int, Field(ge=0)] = 0
    """Number of accelerators that the pod of the benchmark has allocated."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Cost of the benchmark in accelerator-seconds: for each accelerator, the seconds for which it was
    allocated, summed."""
    accelerator_seconds_time: Moment | None = None
    """Time up to which `acceleratorSeconds` is counted."""
    job_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the spec with which the benchmark started, without fields that may change."""
    engine_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the measured engine, as the spec or the LLMService specified it when the Job was created."""
    last_schedule_time: Moment | None = None
    """Scheduled start time of the current or last completed run, with a `schedule`."""
    next_schedule_time: Moment | None = None
    """Start time of the next run. Absent without a `schedule` and while the benchmark is suspended."""
    schedule: Annotated[str, Field(max_length=256)] | None = None
    """Schedule from which `nextScheduleTime` was computed."""
    runs: Annotated[list[RunStatus], Field(max_length=RUN_LIMIT)] = Field(default_factory=list)
    """Completed runs of the schedule, newest first."""
    report: ReportStatus | None = None
    """Location of the report of the last completed run. Absent if there was none."""
    patch: PatchStatus | None = None
    """Change that `applyMode: Patch` has written. Absent without `applyMode: Patch`."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Complete, Failed, Reconciling, Stalled, and Applied with `applyMode: Patch`."""
