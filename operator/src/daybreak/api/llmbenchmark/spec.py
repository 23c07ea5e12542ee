"""What a person asks for: the spec of an LLMBenchmark.

As with the other kinds, the models here are the one source of the CRD, the JSON schema and the API page.
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
"""A value of any JSON type."""


class Metric(StrEnum):
    """What is to be as high as can be."""

    REQUESTS = "RequestsPerSecond"
    """Requests answered in each second."""
    TOKENS = "TokensPerSecond"
    """Tokens of answers in each second."""


class Where(StrEnum):
    """On what a service is measured."""

    COPY = "Copy"
    """On a pod like one of its replicas, with accelerators of its own."""
    SERVICE = "Service"
    """On the service itself, through its gateway, beside everybody's requests."""


class ApplyTo(StrEnum):
    """What becomes of the best settings."""

    RECOMMEND = "Recommend"
    """They stand in the status."""
    PATCH = "Patch"
    """They are written into the LLMService, once."""


class BenchmarkServiceRef(ApiModel):
    """An LLMService that is measured."""

    name: ObjectName
    """Its name, in the benchmark's own namespace."""
    model: ModelName | None = None
    """Which of its models. Unset: its first."""
    mode: Where = Where.COPY
    """`Copy`: on a pod like one of its replicas, which disturbs nobody. `Service`: on the service itself,
    which it wakes; then there is no sweep, and others wait longer meanwhile."""
    api_key: SecretKeySource | None = None
    """The key that its `access` wants, from a Secret, with `mode: Service`."""


class Sweep(ApiModel):
    """One engine argument that is tried with several values."""

    argument: Annotated[str, Field(min_length=1, max_length=128)]
    """Its name, as in `engine.args`, such as `max_num_seqs`."""
    values: Annotated[list[Value], Field(min_length=1, max_length=16)]
    """Its values in order, such as 1, 2, 4, 8, 16: the search goes up them, and stops where it gets worse.
    With three arguments and more it chooses among all of them at once."""


class Objective(ApiModel):
    """What is best. A step that exceeds a limit is never the best."""

    maximize: Metric = Metric.REQUESTS
    """`RequestsPerSecond`, or `TokensPerSecond` of answers."""
    ttft_p99: PositiveDuration | None = None
    """Longest time to the first token, of 99 in 100 requests. Unset: any."""
    tpot_p99: PositiveDuration | None = None
    """Longest time for each further token, of 99 in 100 requests, such as `50ms`. Unset: any."""
    error_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Largest share of requests that may fail."""


class Stop(ApiModel):
    """When the search leaves an argument."""

    patience: Annotated[int, Field(ge=1, le=16)] = 1
    """After how many values in a row that are no better, beyond noise, than the best; with three arguments
    and more, after six times as many settings."""
    noise_factor: Annotated[float, Field(ge=0, le=10)] = 2
    """How many standard errors of a difference count as noise."""
    min_noise: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share below which a difference always counts as noise: engines differ from start to start."""


class Budget(ApiModel):
    """What it may cost. It ends before the step that would exceed it, with the best so far."""

    time: PositiveDuration | None = None
    """How long it may run. Unset: any time."""
    accelerator_seconds: Annotated[float, Field(gt=0)] | None = None
    """Seconds of accelerators. Unset: any number."""
    engine_starts: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many engines may be started. Unset: as many as the sweep needs."""


class BenchmarkOutput(ApiModel):
    """Where the report goes."""

    uri: FolderUri
    """A folder or prefix: `pvc://claim/path`, `s3://bucket/prefix` or `gs://bucket/prefix`. `report.html`,
    `curve.svg`, `curve.png` and `results.json` are written there at the end."""


class BenchmarkSchedule(ApiModel):
    """When it runs, again and again: at night, for instance."""

    start: Annotated[str, Field(min_length=9, max_length=128)]
    """When a run begins: a cron expression of five fields, such as `0 2 * * *`."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """Time zone of `start`, such as `Europe/Berlin`."""
    starting_deadline: PositiveDuration = "1h"
    """How much later a run may begin that could not at its time, since the operator or the service was away.
    What is later than that is left out, and so is a start during a run."""


class LLMBenchmarkSpec(ApiModel):
    """A load, and what is tried under it. Once it has begun, only `suspend`, `schedule`, `applyMode` and
    `ttlAfterFinished` may change; with a `schedule` everything may between two runs."""

    rules = (
        Rule(
            "has(self.model) != has(self.serviceRef)",
            "a benchmark has either a model of its own or a serviceRef",
            lambda self: (self.model is None) != (self.service_ref is None),
        ),
        Rule(
            "!has(self.serviceRef) || self.serviceRef.mode != 'Service' || !has(self.sweep)"
            " || self.sweep.size() == 0",
            "a sweep starts engines anew: leave it out, or use serviceRef.mode Copy",
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
    """A model of the benchmark's own, in the same words as in an LLMService. It has one replica."""
    service_ref: BenchmarkServiceRef | None = None
    """An LLMService whose model is measured instead."""
    load: Load
    """What is asked, and how often."""
    sweep: Annotated[list[Sweep], Field(max_length=4, json_schema_extra=list_by("argument"))] = Field(
        default_factory=list
    )
    """Engine arguments to try. Unset: none, which is a load test of what is there."""
    objective: Objective = Field(default_factory=Objective)
    """What is best."""
    stop: Stop = Field(default_factory=Stop)
    """When the search leaves an argument."""
    budget: Budget = Field(default_factory=Budget)
    """What it may cost."""
    apply_mode: ApplyTo = ApplyTo.RECOMMEND
    """`Recommend`: the best settings stand in the status. `Patch`: they are also written into the LLMService,
    once, where they are better beyond noise and the model is still the one that was measured; only arguments
    of `sweep` are. The chart's value `benchmarks.patchServices` must allow it."""
    output: BenchmarkOutput | None = None
    """Where the report goes beside the ConfigMap that `status.report` names. Unset: nowhere else."""
    schedule: BenchmarkSchedule | None = None
    """When it runs, again and again. Unset: at once, and once."""
    suspend: bool = False
    """Gives everything back. When it is false again the benchmark begins anew; with a `schedule`, at the next
    start."""
    ttl_after_finished: Duration = "0s"
    """How long the pod, with its log, is kept after the end."""
    runtime: Runtime = Field(default_factory=Runtime)
    """The pod. On a copy of a service its own `runtime` counts instead."""
