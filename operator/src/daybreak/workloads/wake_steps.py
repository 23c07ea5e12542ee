"""The steps of a wake, read from the conditions of pods.

A pod states when it was created, scheduled and ready, so a new operator reads the same times.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.api.gates.gate_status import WakePhases
from daybreak.ray.views.ray_pods import HEAD, PodView

When = Callable[[PodView], datetime | None]
"""Function that returns when a pod completed a step, or None if it has not."""


def created(pod: PodView) -> datetime | None:
    """Return when a pod was created."""
    return parse_time(text(at(pod.manifest, "metadata").get("creationTimestamp")))


def scheduled(pod: PodView) -> datetime | None:
    """Return when a pod was scheduled, or None if it has no node."""
    return _since(pod, "PodScheduled")


def ready(pod: PodView) -> datetime | None:
    """Return when a pod became ready, or None if it is not ready."""
    return _since(pod, "Ready")


def last(pods: Sequence[PodView], when: When, started: datetime) -> int | None:
    """Return the second of a wake in which the last pod completed a step, or None if no pod has."""
    moments = [moment for moment in map(when, pods) if moment is not None]
    return seconds_after(started, max(moments)) if moments else None


def first(pods: Sequence[PodView], when: When, started: datetime, needed: int = 1) -> int | None:
    """Return the second of a wake in which enough pods for a replica had completed a step, or None."""
    moments = sorted(moment for moment in map(when, pods) if moment is not None)
    return seconds_after(started, moments[needed - 1]) if len(moments) >= needed else None


def of_pods(pods: Sequence[PodView], started: datetime, before: WakePhases | None) -> WakePhases | None:
    """Return the completed steps of heads and workers.

    Args:
        pods: Current pods of a workload.
        started: Start of the wake.
        before: Steps that were completed before; they stay completed if a pod is deleted.
    """
    heads = [pod for pod in pods if pod.role == HEAD]
    workers = [pod for pod in pods if pod.role != HEAD]
    found = WakePhases(
        objects=last(heads, created, started),
        head_ready=last(heads, ready, started),
        worker_scheduled=first(workers, scheduled, started),
        worker_ready=first(workers, ready, started),
    )
    return together(before, found)


def together(before: WakePhases | None, found: WakePhases) -> WakePhases | None:
    """Return the previous steps together with the newly completed ones, or None if there are none."""
    done = (before or WakePhases()).model_copy(update=found.model_dump(exclude_none=True))
    return done if done.model_dump(exclude_none=True) else None


def seconds_after(started: datetime, moment: datetime) -> int:
    """Return whole seconds since the start of a wake."""
    return max(0, round((moment - started) / timedelta(seconds=1)))


def _since(pod: PodView, kind: str) -> datetime | None:
    found = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None
