"""Settings of a workload that may sleep: times of sleep, and requests held until a wake."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import (
    AutoOrDuration,
    AutoOrPositiveDuration,
    PositiveDuration,
    Quantity,
)
from daybreak.api.schema.scalars import AUTO, seconds

USER_AGENT = "^[!-~]([ -~]{0,126}[!-~])?$"
PATH = "^/[!-~]*$"


class SleepDepth(StrEnum):
    """Resources released in sleep: the workers of the model, or the whole Ray cluster."""

    WORKERS = "Workers"
    CLUSTER = "Cluster"


class State(StrEnum):
    """Forced state of a service, regardless of traffic."""

    ASLEEP = "Asleep"
    AWAKE = "Awake"


class Yield(StrEnum):
    """Condition under which an awake model yields its accelerators to a queued model."""

    WHEN_IDLE = "WhenIdle"
    """The model yields only without requests."""
    ALWAYS = "Always"
    """The model also yields under load, after `minAwake`. New requests are held, requests in progress end,
    and the model waits for its next turn in the accelerator queue."""
    NEVER = "Never"


class AwakeWindow(ApiModel):
    """Recurring time window in which the service stays awake, such as office hours."""

    start: Annotated[str, Field(min_length=9, max_length=128)]
    """Start of the window: a cron expression of five fields, such as `0 8 * * MON-FRI`."""
    duration: PositiveDuration
    """Length of the window."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """Time zone of `start`, such as `Europe/Berlin`. Defaults to `UTC`."""


class AutoIdle(ApiModel):
    """Bounds and cost of an idle time that is computed from a model's own pauses and wakes."""

    rules = (
        Rule(
            "!has(self.min) || !has(self.max) || duration(self.min) <= duration(self.max)",
            "sleep.auto.min must not be longer than sleep.auto.max",
            lambda self: seconds(self.min) <= seconds(self.max),
        ),
    )

    min: PositiveDuration = "1m"
    """Minimum idle time. Defaults to 1m."""
    max: PositiveDuration = "1h"
    """Maximum idle time. Defaults to 1h."""
    wait_cost: Annotated[int, Field(ge=0, le=100_000)] = 10
    """Cost of each second that a client waits for a wake, in seconds of the model's accelerators. A higher
    cost keeps the model awake longer; at 0, only the accelerators count. Defaults to 10."""


class HealthChecks(ApiModel):
    """Health checks of clients, which do not count as activity: they neither wake a model nor keep it awake.

    For a sleeping model, the gateway answers them with 200 and `{"status": "asleep"}`. A request with the
    header `Daybreak-Health-Check` is always a health check.
    """

    user_agents: Annotated[
        list[Annotated[str, Field(pattern=USER_AGENT, max_length=128)]], Field(max_length=16)
    ] = Field(default_factory=list)
    """Prefixes of the header `User-Agent`, such as `litellm-internal-health-check`."""
    keys: Annotated[list[Annotated[str, Field(min_length=1, max_length=507)]], Field(max_length=32)] = Field(
        default_factory=list
    )
    """Names of API keys, as in `access.apiKeys`: `name`, or `SECRET/KEY` for a key without a name."""
    paths: Annotated[list[Annotated[str, Field(pattern=PATH, max_length=253)]], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Paths, such as `/v1/embeddings`."""


class Sleep(ApiModel):
    """Conditions in which the service releases its accelerators."""

    rules = (
        Rule(
            "!has(self.clusterAfterIdle) || self.depth == 'Workers'",
            "sleep.clusterAfterIdle requires depth Workers, because Cluster releases everything at once",
            lambda self: self.cluster_after_idle is None or self.depth is SleepDepth.WORKERS,
        ),
        Rule(
            "!has(self.clusterAfterIdle) || self.afterIdle == 'Auto' || "
            "duration(self.clusterAfterIdle) > duration(self.afterIdle)",
            "sleep.clusterAfterIdle must be longer than sleep.afterIdle",
            lambda self: (
                self.cluster_after_idle is None
                or self.after_idle == AUTO
                or seconds(self.cluster_after_idle) > seconds(self.after_idle)
            ),
        ),
        Rule(
            "!has(self.clusterAfterIdle) || self.afterIdle != 'Auto' || "
            "duration(self.clusterAfterIdle) > duration(self.auto.max)",
            "sleep.clusterAfterIdle must be longer than sleep.auto.max",
            lambda self: (
                self.cluster_after_idle is None
                or self.after_idle != AUTO
                or seconds(self.cluster_after_idle) > seconds(self.auto.max)
            ),
        ),
    )

    after_idle: AutoOrPositiveDuration = "15m"
    """Idle time before a model sleeps. `Auto` is the cheapest time by the model's own pauses and wakes,
    within the bounds of `auto`. Until enough of them are known, `Auto` is 15 minutes. Defaults to 15m."""
    auto: AutoIdle = Field(default_factory=AutoIdle)
    """Settings for `Auto`, and for the idle time that the status always recommends."""
    depth: SleepDepth = SleepDepth.WORKERS
    """Resources released in sleep: `Workers`, the worker pods, which use the accelerators; or `Cluster`, the
    whole Ray cluster. Defaults to `Workers`."""
    cluster_after_idle: PositiveDuration | None = None
    """Idle time before the rest of the Ray cluster is released, after the workers. If unset, the rest of the
    cluster stays, and wakes are faster."""
    yields: Annotated[Yield, Field(alias="yield")] = Yield.WHEN_IDLE
    """Conditions in which the model sleeps early to free accelerators for another model. `WhenIdle`: only
    without requests. `Always`: also under load, after `minAwake`. `Never`: not at all. Defaults to
    `WhenIdle`."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Priority among models that wait for the same accelerators; the highest is first in the accelerator
    queue. Among equal priorities, the model with the oldest held request is first. Defaults to 0."""
    min_awake: PositiveDuration = "30s"
    """Minimum time that the model stays awake before it yields to another model. Defaults to 30s."""
    schedule: Annotated[list[AwakeWindow], Field(max_length=16)] = Field(default_factory=list)
    """Time windows in which the model stays awake even without requests. When a window begins, the model
    wakes."""
    health_checks: HealthChecks = Field(default_factory=HealthChecks)
    """Requests that do not count as activity."""


class Hold(ApiModel):
    """Settings for requests that the gateway holds while the service wakes."""

    max_requests: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Maximum number of held requests per model and gateway pod. Further requests receive 429. Defaults to
    1000."""
    max_body_bytes: Quantity = "10Mi"
    """Maximum size of a request's body. Larger requests receive 413. Defaults to 10Mi."""
    timeout: AutoOrDuration = "Auto"
    """Maximum time for which a request is held before it receives 503. `Auto` computes the time from the
    model's own measured wakes. Defaults to `Auto`."""
