"""What the operator says of an LLMBenchmark."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.conditions import Condition
from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.base import ApiModel

STEP_LIMIT = 256
"""Most steps of a benchmark."""
RUN_LIMIT = 10
"""Most runs of a schedule that are remembered."""
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class BenchmarkPhase(StrEnum):
    """One word on a benchmark."""

    PENDING = "Pending"
    """Nothing of it runs."""
    STARTING = "Starting"
    """Its pod is starting."""
    RUNNING = "Running"
    """Engines are started and loads are measured."""
    SUSPENDED = "Suspended"
    """It was stopped by `spec.suspend`, and begins anew when that is false."""
    SUCCEEDED = "Succeeded"
    """It has ended; the steps and the best are in the status."""
    FAILED = "Failed"
    """It has ended without a result."""


class BenchmarkConditionType(StrEnum):
    """The conditions, in the order in which they are written."""

    COMPLETE = "Complete"
    """True: it has ended with a result."""
    FAILED = "Failed"
    """True: it has ended without one."""
    RECONCILING = "Reconciling"
    """True: on the way (kstatus: in progress)."""
    STALLED = "Stalled"
    """True: somebody has to act (kstatus: failed)."""
    APPLIED = "Applied"
    """True: the LLMService runs with the best settings, which `applyMode: Patch` has written. Absent without
    it."""


class PatchState(StrEnum):
    """How far it is with writing the best settings into the LLMService."""

    WRITING = "Writing"
    """They are about to be written."""
    ROLLING_OUT = "RollingOut"
    """They are written; the service rolls them out by its own strategy."""
    ROLLED_OUT = "RolledOut"
    """The service runs with them, and has answered."""
    ROLLED_BACK = "RolledBack"
    """The service could not start with them, and runs as before."""
    ROLLOUT_FAILED = "RolloutFailed"
    """The service could not start with them, and its rollout does not go back."""
    OVERWRITTEN = "Overwritten"
    """Somebody else has written other values since."""
    NOT_WRITTEN = "NotWritten"
    """There was nothing to write; the message says why."""
    PATCH_REJECTED = "PatchRejected"
    """The API server has refused it; the message is its own."""


UNDER_WAY = (PatchState.WRITING, PatchState.ROLLING_OUT)
"""The states that are not the last."""


class BenchmarkReason(StrEnum):
    """Every reason that a condition of an LLMBenchmark can carry."""

    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    RUNNING = "Running"
    """Loads are being measured."""
    SUSPENDED = "Suspended"
    """`spec.suspend` is true."""
    SCHEDULED = "Scheduled"
    """The next run waits for its time."""
    FINISHED = "Finished"
    """The steps are in the status; the message says what came of them."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec was changed after the benchmark had begun: it goes on as it began."""
    SERVICE_NOT_FOUND = "ServiceNotFound"
    """The LLMService of `serviceRef`, or its model, is not there."""
    NAME_CONFLICT = "NameConflict"
    """An object of a name that Daybreak needs belongs to somebody else."""
    OBJECT_REJECTED = "ObjectRejected"
    """The API server refused an object; the message is its own."""
    POD_FAILED = "PodFailed"
    """The pod cannot start, such as for an image or a claim; the message is Kubernetes' own."""
    ENGINE_FAILED = "EngineFailed"
    """No engine started with the settings; the message has the engine's words."""
    NO_ANSWER = "NoAnswer"
    """No request was answered; the message has the first error."""
    INPUT_NOT_FOUND = "InputNotFound"
    """The table of `load.traceFrom` is not there."""
    INPUT_INVALID = "InputInvalid"
    """It is no table with two columns of whole numbers; the message names the row and what it holds."""
    ACCESS_DENIED = "AccessDenied"
    """The pod has no right to the place of the report, or of the table of `load.traceFrom`."""
    JOB_FAILED = "JobFailed"
    """Its Job has failed; the message is Kubernetes' own."""
    WRITING = PatchState.WRITING.value
    """The best settings are about to be written into the LLMService."""
    ROLLING_OUT = PatchState.ROLLING_OUT.value
    """They are written; the LLMService rolls them out."""
    ROLLED_OUT = PatchState.ROLLED_OUT.value
    """The LLMService runs with them."""
    ROLLED_BACK = PatchState.ROLLED_BACK.value
    """The LLMService could not start with them, and runs as before."""
    ROLLOUT_FAILED = PatchState.ROLLOUT_FAILED.value
    """The LLMService could not start with them, and does not go back by itself."""
    OVERWRITTEN = PatchState.OVERWRITTEN.value
    """Somebody else has written other values since."""
    NOT_WRITTEN = PatchState.NOT_WRITTEN.value
    """Nothing was written into the LLMService; the message says why."""
    PATCH_REFUSED = PatchState.PATCH_REJECTED.value
    """The API server has refused to change the LLMService; the message is its own."""


class Percentiles(ApiModel):
    """Of a time, in milliseconds."""

    p50: float = 0
    """Half of the requests were not slower."""
    p95: float = 0
    """95 in 100 were not slower."""
    p99: float = 0
    """99 in 100 were not slower."""


class StepStatus(ApiModel):
    """One load on one engine."""

    settings: EngineArgs = Field(default_factory=dict)
    """Engine arguments that differ from the baseline's; empty: the baseline."""
    clients: int | None = None
    """Clients of a closed loop."""
    rate: float | None = None
    """Requests in each second of an open loop."""
    requests_per_second: float = 0
    """Requests answered in each second."""
    tokens_per_second: float = 0
    """Tokens of answers in each second."""
    requests: int = 0
    """Requests that were answered."""
    errors: int = 0
    """Requests that failed."""
    ttft: Percentiles | None = None
    """Time to the first token."""
    tpot: Percentiles | None = None
    """Time for each further token."""
    latency: Percentiles | None = None
    """Time for the whole answer."""
    kv_cache: float | None = None
    """Share of the KV cache that was in use, at most."""
    running: float | None = None
    """Requests that the engine ran at a time, on average."""
    waiting: float | None = None
    """Requests that waited in the engine, on average."""
    preemptions: int | None = None
    """Requests that the engine put back for want of KV cache."""
    engine_ttft: float | None = None
    """Mean time to the first token by the engine's own clock, in milliseconds."""
    engine_tpot: float | None = None
    """Mean time for each further token by the engine's own clock, in milliseconds."""
    failure: Annotated[str, Field(max_length=500)] | None = None
    """Why there is no measurement, or which limit was exceeded."""


class GainStatus(ApiModel):
    """The best beside the baseline."""

    ratio: float
    """How many times as much as the baseline."""
    noise: float
    """What of that could be noise."""
    significant: bool
    """Whether it is better beyond noise."""


class PatchStatus(ApiModel):
    """What `applyMode: Patch` has written."""

    state: PatchState
    """How far it is."""
    service: Annotated[str, Field(max_length=253)]
    """The LLMService."""
    uid: Annotated[str, Field(max_length=64)] | None = None
    """Which of that name."""
    model: Annotated[str, Field(max_length=253)] | None = None
    """Which of its models."""
    args: EngineArgs = Field(default_factory=dict)
    """What is written into its `engine.args`."""
    previous_args: EngineArgs = Field(default_factory=dict)
    """What these were before; one that is not here was not set."""
    generation: int | None = None
    """Generation of the LLMService with it."""
    start_time: Moment | None = None
    """When that began."""
    message: Annotated[str, Field(max_length=2000)] | None = None
    """How it is."""


class ReportStatus(ApiModel):
    """Where the report is kept in the cluster."""

    config_map: Annotated[str, Field(max_length=253)] | None = None
    """The ConfigMap that has it, which goes with the benchmark; absent: it could not be kept."""
    files: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=8)] = Field(
        default_factory=list
    )
    """Its keys: `report.html`, `curve.png`, `results.json`, as far as there is room for them."""
    message: Annotated[str, Field(max_length=1024)] | None = None
    """What was not kept, and why."""


class RunStatus(ApiModel):
    """A run of the schedule that has ended."""

    schedule_time: Moment | None = None
    """The start that it went by."""
    start_time: Moment | None = None
    """When its Job was made."""
    completion_time: Moment | None = None
    """When it ended."""
    phase: BenchmarkPhase
    """`Succeeded` or `Failed`."""
    reason: Annotated[str, Field(max_length=64)]
    """Of its condition."""
    message: Annotated[str, Field(max_length=500)] | None = None
    """What came of it."""
    best: StepStatus | None = None
    """The best step that keeps the limits."""
    gain: GainStatus | None = None
    """The best beside that run's baseline."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What it has cost."""


class LLMBenchmarkStatus(ApiModel):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""
    phase: BenchmarkPhase | None = None
    """One word on the benchmark."""
    progress: Annotated[str, Field(max_length=256)] | None = None
    """What is done at this moment."""
    recommendation: Annotated[str, Field(max_length=1024)] | None = None
    """The best settings so far, such as `max_num_seqs=16`; `baseline` where nothing was better."""
    recommended: EngineArgs | None = None
    """The same for `engine.args`."""
    gain: GainStatus | None = None
    """The best beside the baseline."""
    noise: float | None = None
    """Standard deviation of one window, as a share of its value, over all steps."""
    best: StepStatus | None = None
    """The best step that keeps the limits."""
    baseline: StepStatus | None = None
    """The best step with the arguments as they are in the spec."""
    stop_reason: Annotated[str, Field(max_length=500)] | None = None
    """Why the search has ended."""
    engine_starts: int = 0
    """Engines that were started."""
    steps: Annotated[list[StepStatus], Field(max_length=STEP_LIMIT)] = Field(default_factory=list)
    """Every step, in the order in which they were measured."""
    start_time: Moment | None = None
    """When its Job was first made."""
    completion_time: Moment | None = None
    """When it ended."""
    accelerators: Annotated[int, Field(ge=0)] = 0
    """Accelerators that its pod holds."""
    accelerator_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What it has cost: the sum over its accelerators of the seconds that they were held."""
    accelerator_seconds_time: Moment | None = None
    """Until when that is counted."""
    job_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of what the benchmark began with."""
    engine_hash: Annotated[str, Field(max_length=64)] | None = None
    """Digest of the engine that is measured, as the spec or the LLMService said when its Job was made."""
    last_schedule_time: Moment | None = None
    """With a `schedule`: the start that the run goes by which is under way, or has ended last."""
    next_schedule_time: Moment | None = None
    """When the next run begins; absent without a `schedule`, and while it is suspended."""
    schedule: Annotated[str, Field(max_length=256)] | None = None
    """The schedule that `nextScheduleTime` goes by."""
    runs: Annotated[list[RunStatus], Field(max_length=RUN_LIMIT)] = Field(default_factory=list)
    """Runs of the schedule that have ended, the last one first."""
    report: ReportStatus | None = None
    """Where the report of the last end is kept; absent: there was none."""
    patch: PatchStatus | None = None
    """What `applyMode: Patch` has written; absent without it."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Complete, Failed, Reconciling, Stalled; Applied with `applyMode: Patch`."""
