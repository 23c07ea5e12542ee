"""The Ray pods of a service, read: whose they are, whether they are ready, and what keeps them from it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api import names
from daybreak.api.scalars import parse_quantity
from daybreak.api.status import Reason
from daybreak.lifecycle.observed import Manifest
from daybreak.lifecycle.reading import at, condition, mapping, mappings, text, whole
from daybreak.lifecycle.trouble import Trouble
from daybreak.lifecycle.words import excerpt

HEAD = "head"
WORKER = "worker"

_FOR_GOOD = ("InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff")
_MAYBE = ("ErrImagePull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError")
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: ErrImagePull: )?')
_KILLED = (137, 143)
"""Exit codes of SIGKILL and SIGTERM: somebody else ended the container."""
_NOT_ITS_FAULT = (
    "Evicted",
    "NodeShutdown",
    "Terminated",
    "Preempting",
    "Shutdown",
    "NodeAffinity",
    "NodeLost",
)
"""Reasons with which a pod is ended for the sake of its node."""


@dataclass(frozen=True)
class PodView:
    """A Ray pod, read."""

    name: str
    cluster: str
    role: str
    group: str
    """Name of the worker group; KubeRay's own word for the head."""
    ready: bool
    leaving: bool
    """Whether it is being deleted."""
    over: bool
    """Whether it has ended, well or not."""
    placed: bool
    """Whether it stands on a node."""
    manifest: Manifest

    @property
    def counts(self) -> bool:
        """Whether it is there to stay, as far as one can see."""
        return not self.leaving and not self.over


def pod_views(pods: Iterable[Manifest]) -> list[PodView]:
    """Read the pods."""
    return [_view(pod) for pod in pods]


def accelerators(pod: PodView, resource: str) -> int:
    """Devices that a pod holds; none as long as it stands on no node, or once it has ended."""
    if not pod.placed or pod.over:
        return 0
    total = 0
    for container in mappings(at(pod.manifest, "spec").get("containers")):
        wanted = at(container, "resources", "requests").get(resource)
        if wanted is None:
            wanted = at(container, "resources", "limits").get(resource)
        try:
            total += int(parse_quantity(str(wanted or 0)))
        except ValueError:
            continue
    return total


def pod_trouble(pod: PodView) -> Trouble | None:
    """What keeps a pod from being ready; None when it is, or is on the way."""
    if pod.ready or pod.leaving:
        return None
    status = mapping(pod.manifest.get("status"))
    for container in _containers(status):
        found = _container_trouble(container)
        if found is not None:
            return found
    if status.get("phase") == "Failed":
        return _failed_pod(status)
    return _not_placed(status)


def _view(pod: Manifest) -> PodView:
    metadata = at(pod, "metadata")
    labels = mapping(metadata.get("labels"))
    status = mapping(mapping(pod).get("status"))
    return PodView(
        name=text(metadata.get("name")),
        cluster=text(labels.get(names.RAY_CLUSTER_LABEL)),
        role=text(labels.get(names.RAY_NODE_TYPE_LABEL)),
        group=text(labels.get(names.RAY_GROUP_LABEL)),
        ready=condition(status, "Ready").get("status") == "True" and status.get("phase") == "Running",
        leaving=bool(metadata.get("deletionTimestamp")),
        over=status.get("phase") in ("Failed", "Succeeded"),
        placed=bool(at(pod, "spec").get("nodeName")),
        manifest=mapping(pod),
    )


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from mappings(status.get("initContainerStatuses"))
    yield from mappings(status.get("containerStatuses"))


def _container_trouble(container: Mapping[str, Any]) -> Trouble | None:
    name = text(container.get("name"))
    waiting = at(container, "state", "waiting")
    reason, message = text(waiting.get("reason")), text(waiting.get("message"))
    if reason in _FOR_GOOD or reason in _MAYBE:
        why = excerpt(_BACK_OFF.sub("", message)) or reason
        image = text(container.get("image"))
        return Trouble(
            Reason.IMAGE_PULL_FAILED,
            f"image {image or 'of ' + name} cannot be pulled: {why}",
            stalled=reason in _FOR_GOOD,
        )
    if reason in _CONFIG:
        why = excerpt(message) or reason
        return Trouble(
            Reason.CONTAINER_CONFIG_FAILED, f"container {name} cannot be created: {why}", stalled=True
        )
    if reason == "CrashLoopBackOff":
        return _ended(name, at(container, "lastState", "terminated"), message, stalled=True)
    if reason == "RunContainerError":
        why = excerpt(message) or reason
        return Trouble(Reason.CONTAINER_CRASHING, f"container {name} does not start: {why}", stalled=True)
    ended = at(container, "state", "terminated")
    if ended and whole(ended.get("exitCode")) != 0:
        code = whole(ended.get("exitCode"))
        own_fault = ended.get("reason") == "OOMKilled" or code not in _KILLED
        return _ended(name, ended, "", stalled=own_fault)
    return None


def _ended(name: str, ended: Mapping[str, Any], otherwise: str, *, stalled: bool) -> Trouble:
    if ended.get("reason") == "OOMKilled":
        what = f"container {name} was killed for going over its memory limit (OOMKilled): raise it"
    elif ended:
        code, said = whole(ended.get("exitCode")), excerpt(text(ended.get("message")))
        reason = text(ended.get("reason"))
        what = f"container {name} ended with exit code {code}"
        if reason not in ("", "Error", "Completed"):
            what += f" ({reason})"
        if said:
            what += f": {said}"
    else:
        what = f"container {name} ends again and again"
        if otherwise and not otherwise.startswith("back-off"):
            what += f": {excerpt(otherwise)}"
    return Trouble(Reason.CONTAINER_CRASHING, what, stalled=stalled)


def _failed_pod(status: Mapping[str, Any]) -> Trouble:
    reason, message = text(status.get("reason")), excerpt(text(status.get("message")))
    what = "a pod was ended"
    if reason:
        what += f" ({reason})"
    if message:
        what += f": {message}"
    stalled = bool(reason) and reason not in _NOT_ITS_FAULT
    return Trouble(Reason.CONTAINER_CRASHING, what, stalled=stalled)


def _not_placed(status: Mapping[str, Any]) -> Trouble | None:
    placed = condition(status, "PodScheduled")
    if placed.get("status") != "False":
        return None
    message = excerpt(text(placed.get("message")))
    if not message:
        return None
    # A claim that is not there will not come by itself; nodes may, and room on them.
    return Trouble(
        Reason.UNSCHEDULABLE,
        f"a pod waits for a place: {message}",
        stalled="persistentvolumeclaim" in message and "not found" in message,
    )
