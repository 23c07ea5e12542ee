"""Views of the Ray pods of a service: cluster, role, readiness and resources."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, condition, mapping, mappings, parse_time, text
from daybreak.api.schema.scalars import parse_quantity

HEAD = "head"


@dataclass(frozen=True)
class PodView:
    """View of a Ray pod."""

    name: str
    cluster: str
    role: str
    """`head` or `worker`."""
    group: str
    """Name of the worker group, or KubeRay's name for the head."""
    ready: bool
    leaving: bool
    """True if the pod is being deleted."""
    over: bool
    """True if the pod has ended, successfully or not."""
    placed: bool
    """True if the pod is assigned to a node."""
    manifest: Manifest

    @property
    def counts(self) -> bool:
        """True if the pod is neither ended nor in deletion."""
        return not self.leaving and not self.over


def pod_views(pods: Iterable[Manifest]) -> list[PodView]:
    """Return views of the pods."""
    return [_view(pod) for pod in pods]


def accelerators(pod: PodView, resource: str) -> int:
    """Return the number of devices that a pod uses, which is 0 without a node and after the pod's end."""
    if not pod.placed or pod.over:
        return 0
    total = 0
    for container in mappings(at(pod.manifest, "spec").get("containers")):
        desired = at(container, "resources", "requests").get(resource)
        try:
            total += int(parse_quantity(str(desired))) if desired is not None else 0
        except ValueError:
            continue
    return total


def requests_by_node(pods: Iterable[PodView]) -> dict[str, dict[str, Decimal]]:
    """Return the requested amount of each resource by node, in base units: CPUs, bytes and devices."""
    booked: dict[str, dict[str, Decimal]] = {}
    for pod in pods:
        if not pod.placed or pod.over:
            continue
        node = booked.setdefault(text(at(pod.manifest, "spec").get("nodeName")), {})
        for container in mappings(at(pod.manifest, "spec").get("containers")):
            for resource, quantity in at(container, "resources", "requests").items():
                try:
                    amount = parse_quantity(str(quantity))
                except ValueError:
                    continue
                node[resource] = node.get(resource, Decimal(0)) + amount
    return booked


def unschedulable(pods: Iterable[PodView]) -> tuple[datetime, str] | None:
    """Return the start and message of the oldest unschedulable state, or None if no pod has one."""
    found = []
    for pod in pods:
        report = condition(at(pod.manifest, "status"), "PodScheduled")
        if pod.counts and not pod.placed and report.get("reason") == "Unschedulable":
            since = parse_time(text(report.get("lastTransitionTime")))
            if since is not None:
                found.append((since, text(report.get("message"))))
    return min(found, default=None)


def _view(pod: Manifest) -> PodView:
    metadata = at(pod, "metadata")
    labels = mapping(metadata.get("labels"))
    status = mapping(mapping(pod).get("status"))
    phase = status.get("phase")
    return PodView(
        name=text(metadata.get("name")),
        cluster=text(labels.get(names.RAY_CLUSTER_LABEL)),
        role=text(labels.get(names.RAY_NODE_TYPE_LABEL)),
        group=text(labels.get(names.RAY_GROUP_LABEL)),
        ready=phase == "Running" and condition(status, "Ready").get("status") == "True",
        leaving=bool(metadata.get("deletionTimestamp")),
        over=phase in ("Failed", "Succeeded"),
        placed=bool(at(pod, "spec").get("nodeName")),
        manifest=mapping(pod),
    )
