"""The steps of a wake, read from the conditions of pods.

A pod states when it was created, had a node and was ready, so a new operator reads the same times.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from daybreak.api.common.unstructured import at, condition, parse_time, text
from daybreak.api.gates.gate_status import WakePhases
from daybreak.ray.views.ray_pods import HEAD, PodView

When = Callable[[PodView], datetime | None]
"""When a pod did a step; None: it has not."""


def created(pod: PodView) -> datetime | None:
    """Return when a pod was created."""
    return parse_time(text(at(pod.manifest, "metadata").get("creationTimestamp")))


def scheduled(pod: PodView) -> datetime | None:
    """Return since when a pod has had a node; None: it has none."""
    return _since(pod, "PodScheduled")


def ready(pod: PodView) -> datetime | None:
    """Return since when a pod has been ready; None: it is not."""
    return _since(pod, "Ready")


def last(pods: Sequence[PodView], when: When, started: datetime) -> int | None:
    """Return the second of a wake in which the last pod did a step; None: none has done it."""
    moments = [moment for moment in map(when, pods) if moment is not None]
    return seconds_after(started, max(moments)) if moments else None


def first(pods: Sequence[PodView], when: When, started: datetime, needed: int = 1) -> int | None:
    """Return the second of a wake in which as many pods as a replica needs had done a step; None: not yet."""
    moments = sorted(moment for moment in map(when, pods) if moment is not None)
    return seconds_after(started, moments[needed - 1]) if len(moments) >= needed else None


def of_pods(pods: Sequence[PodView], started: datetime, before: WakePhases | None) -> WakePhases | None:
    """Return the steps of heads and workers that are done.

    Args:
        pods: The pods of a workload that are there to stay.
        started: When the wake began.
        before: Steps that were done already; a pod that is gone again takes none back.
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
    """Return the steps of before with those that are done now; None: there are none."""
    done = (before or WakePhases()).model_copy(update=found.model_dump(exclude_none=True))
    return done if done.model_dump(exclude_none=True) else None


def seconds_after(started: datetime, moment: datetime) -> int:
    """Return whole seconds from the beginning of a wake."""
    return max(0, round((moment - started) / timedelta(seconds=1)))


def _since(pod: PodView, kind: str) -> datetime | None:
    found = condition(pod.manifest.get("status"), kind)
    return parse_time(text(found.get("lastTransitionTime"))) if found.get("status") == "True" else None
