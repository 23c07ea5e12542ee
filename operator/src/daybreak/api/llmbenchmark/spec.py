"""Spec of an LLMBenchmark.

As for the other kinds, the models here are the only source of the CRD, the JSON schema and the API page.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from daybreak.api.jobs.places import FolderUri
from daybreak.api.llmbenchmark.load import Load
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import SecretKeySource, list_by
from daybreak.api.schema.scalar_types import Duration, ModelName, ObjectName, PositiveDuration

Value = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""Value of any JSON type."""


class Metric(StrEnum):
    """Metric that the search maximizes."""

    REQUESTS = "RequestsPerSecond"
    """Number of requests answered per second."""
    TOKENS = "TokensPerSecond"
    """Number of answer tokens per second."""


class Where(StrEnum):
    """Target of the measurement of a service."""

    COPY = "Copy"
    """A pod like one of the service's replicas, with separate accelerators."""
    SERVICE = "Service"
    """The service itself, through its gateway, together with the requests of its clients."""


class ApplyTo(StrEnum):
    """Use of the best settings."""

    RECOMMEND = "Recommend"
    """The best settings are in the status."""
    PATCH = "Patch"
    """The best settings are written into the LLMService, once."""


class BenchmarkServiceRef(ApiModel):
    """LLMService that is measured."""

    name: ObjectName
    """Name of the LLMService in the namespace of the benchmark."""
    model: ModelName | None = None
    """Name of the measured model. Defaults to the first model of the LLMService."""
    mode: Where = Where.COPY
    """Target of the measurement. `Copy`: a pod like one of the service's replicas, without effect on clients.
    `Service`: the service itself, which the benchmark wakes. With `Service` there is no sweep, and other
    requests wait longer during the measurement."""
    api_key: SecretKeySource | None = None
    """API key that the service's `access` requires, from a Secret, with `mode: Service`."""


class Sweep(ApiModel):
    """Engine argument that is tried with several values."""

    argument: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the argument as in `engine.args`, such as `max_num_seqs`."""
    values: Annotated[list[Value], Field(min_length=1, max_length=16)]
    """Values of the argument in order, such as 1, 2, 4, 8, 16. The search goes through them from the first on
    and stops when results become worse. With three or more arguments, the search varies all arguments at
    once."""


class Objective(ApiModel):
    """Objective of the search. A step that exceeds a limit is never the best."""

    maximize: Metric = Metric.REQUESTS
    """Metric that the search maximizes: `RequestsPerSecond`, or `TokensPerSecond` of answers."""
    ttft_p99: PositiveDuration | None = None
    """Maximum P99 time to the first token. If unset, there is no limit."""
    tpot_p99: PositiveDuration | None = None
    """Maximum P99 time per further token, such as `50ms`. If unset, there is no limit."""
    error_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Maximum fraction of requests that may fail, from 0 to 1."""


class Stop(ApiModel):
    """Criteria for the end of the search over an argument."""

    patience: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of consecutive values, none better than the best beyond noise, after which the search over an
    argument ends. With three or more arguments, six times as many settings."""
    noise_factor: Annotated[float, Field(ge=0, le=10)] = 2
    """Number of standard errors of a difference that count as noise."""
    min_noise: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Fraction below which a difference always counts as noise, because engines differ from start to
    start."""


class Budget(ApiModel):
    """Limits on the cost of a benchmark.

    The benchmark ends before the step that would exceed one of them, with the best result so far.
    """

    time: PositiveDuration | None = None
    """Maximum duration of the benchmark. If unset, there is no limit."""
    accelerator_seconds: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of accelerator-seconds. If unset, there is no limit."""
    engine_starts: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of engine starts. Defaults to the number that the sweep needs."""


class BenchmarkOutput(ApiModel):
    """Destination of the report."""

    uri: FolderUri
    """Folder or prefix: `pvc://claim/path`, `s3://bucket/prefix` or `gs://bucket/prefix`. At the end,
    `report.html`, `curve.svg`, `curve.png` and `results.json` are written there."""


class BenchmarkSchedule(ApiModel):
    """Times of repeated runs, for example every night."""

    start: Annotated[str, Field(min_length=9, max_length=128)]
    """Start times of runs: a cron expression of five fields, such as `0 2 * * *`."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """Time zone of `start`, such as `Europe/Berlin`."""
    starting_deadline: PositiveDuration = "1h"
    """Maximum delay of a run that could not begin at its time because the operator or the service was
    unavailable. Runs that would begin later are skipped, and so are starts during a run."""


class LLMBenchmarkSpec(ApiModel):
    """Load on an engine, and the engine arguments that are tried under it.

    After the start, only `suspend`, `schedule`, `applyMode` and `ttlAfterFinished` may change. With a
    `schedule`, all fields may change between two runs.
    """

    rules = (
        Rule(
            "has(self.model) != has(self.serviceRef)",
            "a benchmark needs either model or serviceRef",
            lambda self: (self.model is None) != (self.service_ref is None),
        ),
        Rule(
            "!has(self.serviceRef) || self.serviceRef.mode != 'Service' || !has(self.sweep)"
            " || self.sweep.size() == 0",
            "a sweep restarts engines: remove it, or use serviceRef.mode Copy",
            lambda self: self.service_ref is None or self.service_ref.mode is Where.COPY or not self.sweep,
        ),
        Rule(
            "!has(self.applyMode) || self.applyMode != 'Patch'"
            " || (has(self.serviceRef) && has(self.sweep) && self.sweep.size() > 0)",
            "applyMode Patch writes what a sweep has found into the LLMService of serviceRef: it needs both",
            lambda self: (
                self.apply_mode is ApplyTo.RECOMMEND or (self.service_ref is not None and bool(self.sweep))
            ),
        ),
        Rule(
            "!has(self.schedule) || !has(self.applyMode) || self.applyMode != 'Patch'",
            "applyMode Patch writes once: with a schedule, leave it at Recommend",
            lambda self: self.schedule is None or self.apply_mode is ApplyTo.RECOMMEND,
        ),
    )

    model: Model | None = None
    """Dedicated model of the benchmark, with the fields of a model of an LLMService. It has one replica."""
    service_ref: BenchmarkServiceRef | None = None
    """LLMService whose model is measured instead."""
    load: Load
    """Requests of the benchmark and their rate."""
    sweep: Annotated[list[Sweep], Field(max_length=4, json_schema_extra=list_by("argument"))] = Field(
        default_factory=list
    )
    """Engine arguments to try. If unset, the benchmark is a load test of the existing arguments."""
    objective: Objective = Field(default_factory=Objective)
    """Objective of the search."""
    stop: Stop = Field(default_factory=Stop)
    """Criteria for the end of the search over an argument."""
    budget: Budget = Field(default_factory=Budget)
    """Limits on the cost of the benchmark."""
    apply_mode: ApplyTo = ApplyTo.RECOMMEND
    """Use of the best settings. `Recommend`: they are in the status. `Patch`: the operator also writes them
    into the LLMService, once, and only arguments of `sweep`. It does so if they are better beyond noise, or
    if the existing arguments exceed a limit at every load. The model must still be the measured one. The
    chart value `benchmarks.patchServices` must allow it."""
    output: BenchmarkOutput | None = None
    """Destination of the report in addition to the ConfigMap in `status.report`. If unset, there is no other
    destination."""
    schedule: BenchmarkSchedule | None = None
    """Schedule of repeated runs. If unset, the benchmark runs once, immediately."""
    suspend: bool = False
    """If true, the benchmark releases all its resources. When the field is false again, the benchmark
    restarts; with a `schedule`, it does so at the next start."""
    ttl_after_finished: Duration = "0s"
    """Time for which the pod and its log are kept after the end."""
    runtime: Runtime = Field(default_factory=Runtime)
    """Configuration of the pod. For a copy of a service, the service's own `runtime` is used instead."""
