"""What the operator says of an LLMBenchmark."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.base import ApiModel
from daybreak.api.common.conditions import Condition
from daybreak.api.ray.model import EngineArgs

STEP_LIMIT = 256
"""Most steps of a benchmark."""
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


class BenchmarkReason(StrEnum):
    """Every reason that a condition of an LLMBenchmark can carry."""

    PROGRESSING = "Progressing"
    """On the way; the message says what is waited for."""
    RUNNING = "Running"
    """Loads are being measured."""
    SUSPENDED = "Suspended"
    """`spec.suspend` is true."""
    FINISHED = "Finished"
    """The steps are in the status; the message says what came of them."""
    INVALID_SPEC = "InvalidSpec"
    """The spec cannot be built; the message names each field and the nearest fix."""
    SPEC_CHANGED = "SpecChanged"
    """The spec was changed after the benchmark had begun: it goes on as it began."""
    SERVICE_MISSING = "ServiceMissing"
    """The LLMService of `serviceRef`, or its model, is not there."""
    NAME_TAKEN = "NameTaken"
    """An object of a name that Daybreak needs belongs to somebody else."""
    REFUSED = "Refused"
    """The API server refused an object; the message is its own."""
    POD_FAILED = "PodFailed"
    """The pod cannot start or finds no place; the message is the kubelet's or the scheduler's own."""
    ENGINE_FAILED = "EngineFailed"
    """No engine started with the settings; the message has the engine's words."""
    NO_ANSWER = "NoAnswer"
    """No request was answered; the message has the first error."""
    NO_ACCESS = "NoAccess"
    """The pod has no right to the place of the report."""
    JOB_FAILED = "JobFailed"
    """Its Job has failed; the message is Kubernetes' own."""


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
    failure: Annotated[str, Field(max_length=500)] | None = None
    """Why there is no measurement, or which limit was exceeded."""


class GainStatus(ApiModel):
    """The best beside the baseline."""

    ratio: float
    """How many times as much as the baseline."""
    noise: float
    """What of that could be noise."""
    certain: bool
    """Whether it is better beyond noise."""


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
    stopped: Annotated[str, Field(max_length=500)] | None = None
    """Why the search has ended."""
    engine_starts: int = 0
    """Engines that were started."""
    steps: Annotated[list[StepStatus], Field(max_length=STEP_LIMIT)] = Field(default_factory=list)
    """Every step, in the order in which they were measured."""
    started: Moment | None = None
    """When its Job was first made."""
    finished: Moment | None = None
    """When it ended."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """Accelerators that its pod holds."""
    gpu_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What it has cost: the sum over its accelerators of the seconds that they were held."""
    gpu_seconds_until: Moment | None = None
    """Until when that is counted."""
    job: Annotated[str, Field(max_length=64)] | None = None
    """Digest of what the benchmark began with."""
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions: Complete, Failed, Reconciling, Stalled."""
