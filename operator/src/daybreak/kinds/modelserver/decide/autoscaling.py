"""Number of replicas for the requests in progress: a pure function of them, the last decision, and the time.

Replicas are added after more of them were desired for `upscaleDelay`, and removed after fewer were desired
for `downscaleDelay`. The new number is one that was desired during the whole delay. Therefore a short peak
adds none, and a short pause removes none.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.api.common.unstructured import Manifest, at, parse_time, text, whole, written
from daybreak.api.modelserver.spec import Autoscaling, ModelServerSpec
from daybreak.api.modelserver.status import AutoscalingStatus
from daybreak.api.schema.scalars import parse_duration
from daybreak.gates.traffic import Traffic
from daybreak.kinds.modelserver.decide.view import View

LOOK = timedelta(seconds=5)
"""Interval of checks of the requests in progress: gateways do not report each request."""
TARGET = 16.0
"""Target number of requests in progress per replica, if the spec sets none."""
SLACK = 0.9
"""Maximum load of the remaining replicas, as a share of the target, at which fewer are desired. It prevents
oscillation."""


@dataclass(frozen=True)
class Scale:
    """Decision on the number of pods."""

    replicas: int
    desired: int | None = None
    """Number of replicas desired since `since`: the smallest increase or decrease that was desired all that
    time."""
    since: datetime | None = None


def replicas(view: View) -> int:
    """Return the desired number of pods of an awake server, from its status."""
    spec = view.server.spec
    before = _read(view.observed.status)
    return spec.replicas if spec.autoscaling is None or before is None else _within(spec, before.replicas)


def scaled(view: View, *, asleep: bool) -> AutoscalingStatus | None:
    """Return the status of autoscaling, or None without autoscaling or in sleep.

    A sleeping server wakes with its minimum number of replicas.
    """
    spec, gateway = view.server.spec, view.observed.gateway
    if spec.autoscaling is None or asleep:
        return None
    before = _read(view.observed.status) or Scale(spec.replicas)
    after = step(before, spec, view.observed.traffic, view.observed.now) if gateway is not None else before
    since = None if after.since is None else written(after.since)
    return AutoscalingStatus(
        current_replicas=after.replicas, desired_replicas=after.desired, desired_since_time=since
    )


def step(before: Scale, spec: ModelServerSpec, traffic: Traffic, now: datetime) -> Scale:
    """Return the next decision."""
    rules = spec.autoscaling
    assert rules is not None  # noqa: S101 - checked by the caller
    present = _within(spec, before.replicas)
    desired = _desired_replicas(spec, rules, traffic.held + traffic.in_flight, present)
    # A gateway that does not report may have requests too, so without it the count is a lower bound.
    if desired == present or (desired < present and not traffic.known):
        return Scale(present)
    more = desired > present
    delay = parse_duration(rules.upscale_delay if more else rules.downscale_delay)
    if not delay:
        return Scale(desired)
    if before.desired is None or before.since is None or (before.desired > present) != more:
        return Scale(present, desired, now)
    steady = min(before.desired, desired) if more else max(before.desired, desired)
    if now - before.since >= delay:
        return Scale(steady)
    return Scale(present, steady, before.since)


def _desired_replicas(spec: ModelServerSpec, rules: Autoscaling, requests: int, present: int) -> int:
    target = rules.target_ongoing_requests or min(TARGET, spec.max_ongoing_requests)
    more, fewer = math.ceil(requests / target), math.ceil(requests / (SLACK * target))
    return _within(spec, more if more > present else min(present, fewer))


def _within(spec: ModelServerSpec, number: int) -> int:
    most = spec.replicas if spec.autoscaling is None else spec.autoscaling.max_replicas
    return max(spec.replicas, min(number, most))


def _read(status: Manifest) -> Scale | None:
    found = at(status, "autoscaling")
    if not whole(found.get("currentReplicas")):
        return None
    return Scale(
        whole(found.get("currentReplicas")),
        whole(found.get("desiredReplicas")) or None,
        parse_time(text(found.get("desiredSinceTime"))),
    )
