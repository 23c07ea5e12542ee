"""Problems that prevent a pod from becoming ready, in the messages of the kubelet and the scheduler."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import at, condition, mapping, mappings, text, whole
from daybreak.problems.drivers import driver_error
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import HEAD, PodView

_NO_IMAGE = ("InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff")
"""Reasons for which the kubelet has tried to pull an image without success, or will not try."""
_NO_IMAGE_YET = ("ErrImagePull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed")
"""Reasons of a single failed attempt, after which the kubelet tries again."""
_NO_CONTAINER = ("CreateContainerConfigError", "CreateContainerError")
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: ErrImagePull: )?')
_PREEMPTION = re.compile(r"[.,]? *preemption: .*$", re.DOTALL)
_KILLED = (137, 143)
"""Exit codes of SIGKILL and SIGTERM: another process ended the container."""


def pod_problem(pod: PodView) -> Problem | None:
    """Return the problem that prevents a pod from becoming ready, or None if it is ready or starting."""
    if pod.ready or pod.leaving:
        return None
    status = mapping(pod.manifest.get("status"))
    for container in _containers(status):
        found = _container_problem(container, head=pod.role == HEAD)
        if found is not None:
            return found
    if status.get("phase") == "Failed":
        return _failed_pod(status)
    return _not_placed(status)


def ended_by_itself(pod: PodView) -> str:
    """Return how a container of a pod ended by itself before its restart. Empty if none did."""
    for container in _containers(mapping(pod.manifest.get("status"))):
        last = at(container, "lastState", "terminated")
        if last and (last.get("reason") == "OOMKilled" or whole(last.get("exitCode")) not in _KILLED):
            return _ended(text(container.get("name")), last)
    return ""


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from mappings(status.get("initContainerStatuses"))
    yield from mappings(status.get("containerStatuses"))


def _container_problem(container: Mapping[str, Any], *, head: bool) -> Problem | None:
    name = text(container.get("name"))
    waiting = at(container, "state", "waiting")
    reason, message = text(waiting.get("reason")), text(waiting.get("message"))
    if reason in _NO_IMAGE or reason in _NO_IMAGE_YET:
        image = text(container.get("image")) or f"of container {name}"
        why = excerpt(_BACK_OFF.sub("", message)) or reason
        report = f"image {image} cannot be pulled: {why}"
        return Problem(Reason.IMAGE_PULL_FAILED, report, stalled=reason in _NO_IMAGE)
    if reason in _NO_CONTAINER:
        report = f"container {name} cannot be created: {excerpt(message) or reason}"
        return Problem(Reason.CONTAINER_CONFIG_FAILED, report, stalled=True)
    if reason == "RunContainerError":
        report = f"container {name} does not start: {driver_error(message) or excerpt(message) or reason}"
        return Problem(Reason.CONTAINER_CRASHING, report, stalled=True)
    if reason == "CrashLoopBackOff":
        last = at(container, "lastState", "terminated")
        return Problem(Reason.CONTAINER_CRASHING, _ended(name, last), stalled=True)
    ended = at(container, "state", "terminated")
    if ended and (whole(ended.get("exitCode")) or ended.get("reason") == "OOMKilled"):
        # A worker that ends by itself has usually lost its head, and is replaced.
        own_fault = head and whole(ended.get("exitCode")) not in _KILLED
        no_driver = driver_error(text(ended.get("message")))
        stalled = own_fault or bool(no_driver) or ended.get("reason") == "OOMKilled"
        return Problem(Reason.CONTAINER_CRASHING, _ended(name, ended), stalled=stalled)
    return None


def _ended(name: str, ended: Mapping[str, Any]) -> str:
    if ended.get("reason") == "OOMKilled":
        return f"container {name} exceeded its memory limit and was killed (OOMKilled): raise the limit"
    if not ended:
        return f"container {name} keeps crashing"
    report = f"container {name} ended with exit code {whole(ended.get('exitCode'))}"
    if ended.get("reason") not in (None, "", "Error", "Completed"):
        report += f" ({text(ended.get('reason'))})"
    message = text(ended.get("message"))
    last_words = driver_error(message) or excerpt(message)
    return f"{report}: {last_words}" if last_words else report


def _failed_pod(status: Mapping[str, Any]) -> Problem:
    """Return the problem of a pod that its node has ended.

    KubeRay creates another pod, but that one would exceed a limit again.
    """
    reason, message = text(status.get("reason")), excerpt(text(status.get("message")))
    report = (
        "a pod was evicted or failed"
        + (f" ({reason})" if reason else "")
        + (f": {message}" if message else "")
    )
    return Problem(Reason.CONTAINER_CRASHING, report, stalled="exceeds the" in message)


def _not_placed(status: Mapping[str, Any]) -> Problem | None:
    placed = condition(status, "PodScheduled")
    message = excerpt(_PREEMPTION.sub("", text(placed.get("message"))))
    if placed.get("status") != "False" or not message:
        return None
    # A missing PVC is not created by waiting; a node may be added, and capacity may become free.
    stalled = "persistentvolumeclaim" in message and "not found" in message
    return Problem(Reason.UNSCHEDULABLE, f"a pod cannot be scheduled: {message}", stalled=stalled)
