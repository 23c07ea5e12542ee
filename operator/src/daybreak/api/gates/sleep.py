"""What a person asks for of a workload that may sleep: when it sleeps, and how requests wait for it."""

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
    """What is given back in sleep: the model's workers, or the whole Ray cluster."""

    WORKERS = "Workers"
    CLUSTER = "Cluster"


class State(StrEnum):
    """What a service is kept at, whatever the traffic."""

    ASLEEP = "Asleep"
    AWAKE = "Awake"


class Yield(StrEnum):
    """Whether a model that is awake gives its accelerators to another one that finds none."""

    WHEN_IDLE = "WhenIdle"
    """When nobody asks it."""
    ALWAYS = "Always"
    """Also when it is asked, after `minAwake`: requests are held, what runs is finished, and it waits for its
    next turn."""
    NEVER = "Never"


class AwakeWindow(ApiModel):
    """A time in which the service stays awake, again and again: office hours, for instance."""

    start: Annotated[str, Field(min_length=9, max_length=128)]
    """When it begins: a cron expression of five fields, such as `0 8 * * MON-FRI`."""
    duration: PositiveDuration
    """How long it lasts."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC"
    """Time zone of `start`, such as `Europe/Berlin`."""


class AutoIdle(ApiModel):
    """How an idle time is found from a model's own pauses and wakes."""

    rules = (
        Rule(
            "!has(self.min) || !has(self.max) || duration(self.min) <= duration(self.max)",
            "sleep.auto.min must not be longer than sleep.auto.max",
            lambda self: seconds(self.min) <= seconds(self.max),
        ),
    )

    min: PositiveDuration = "1m"
    """The shortest idle time."""
    max: PositiveDuration = "1h"
    """The longest idle time."""
    wait_cost: Annotated[int, Field(ge=0, le=100_000)] = 10
    """What a second is worth for which a client waits for a wake, in seconds of the model's accelerators. The
    more, the longer the model stays awake; 0: only the accelerators count."""


class HealthChecks(ApiModel):
    """Requests that do not count as activity: they neither wake a model nor keep it awake. A sleeping model's
    are answered 200 with `{"status": "asleep"}`. So are those with the header `Daybreak-Health-Check`."""

    user_agents: Annotated[
        list[Annotated[str, Field(pattern=USER_AGENT, max_length=128)]], Field(max_length=16)
    ] = Field(default_factory=list)
    """Beginnings of the header `User-Agent`, such as `litellm-internal-health-check`."""
    keys: Annotated[list[Annotated[str, Field(min_length=1, max_length=507)]], Field(max_length=32)] = Field(
        default_factory=list
    )
    """Names of API keys, as in `access.apiKeys`: `name`, or `SECRET/KEY` of a key without one."""
    paths: Annotated[list[Annotated[str, Field(pattern=PATH, max_length=253)]], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Paths, such as `/v1/embeddings`."""


class Sleep(ApiModel):
    """When the service gives its accelerators back."""

    rules = (
        Rule(
            "!has(self.clusterAfterIdle) || self.depth == 'Workers'",
            "sleep.clusterAfterIdle goes with depth Workers: with Cluster all is given back at once",
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
    """How long nobody must have asked; `Auto`: what costs least by the model's own pauses and wakes, between
    the bounds of `auto`, and 15 minutes before enough of them are known."""
    auto: AutoIdle = Field(default_factory=AutoIdle)
    """How `Auto`, and the idle time that the status recommends in any case, is found."""
    depth: SleepDepth = SleepDepth.WORKERS
    """What is given back then: the worker pods, which hold the accelerators, or the whole Ray cluster."""
    cluster_after_idle: PositiveDuration | None = None
    """How long nobody must have asked before the rest of the Ray cluster is given back as well, after the
    workers. Unset: it stays, and waking is quicker."""
    yields: Annotated[Yield, Field(alias="yield")] = Yield.WHEN_IDLE
    """When the model sleeps early to free accelerators for another model: `WhenIdle`, only without requests;
    `Always`, also under load, after `minAwake`; `Never`."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Of the models that wait for the same accelerators, the one with the highest comes first; among equals
    the one whose oldest request has waited longest."""
    min_awake: PositiveDuration = "30s"
    """How long it stays awake at least before it gives way to another one."""
    schedule: Annotated[list[AwakeWindow], Field(max_length=16)] = Field(default_factory=list)
    """Times in which it stays awake even when nobody asks; when one begins, it wakes."""
    health_checks: HealthChecks = Field(default_factory=HealthChecks)
    """Requests that do not count as activity."""


class Hold(ApiModel):
    """How requests wait while the service wakes."""

    max_requests: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Most requests that each of the gateway's pods holds at once; one more is answered with 429."""
    max_body_bytes: Quantity = "10Mi"
    """Largest body of a request; a larger one is answered with 413."""
    timeout: AutoOrDuration = "Auto"
    """How long a request is held before 503; `Auto`: from the service's own measured wakes."""
