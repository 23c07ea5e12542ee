"""The Ray pods of a service, read: whose they are, whether they are ready, and what they hold."""

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
    """A Ray pod, read."""

    name: str
    cluster: str
    role: str
    """`head` or `worker`."""
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
        try:
            total += int(parse_quantity(str(wanted))) if wanted is not None else 0
        except ValueError:
            continue
    return total


def requests_by_node(pods: Iterable[PodView]) -> dict[str, dict[str, Decimal]]:
    """What pods have booked of each resource on each node, in base units: cores, bytes, devices."""
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
    """Since when the scheduler has found no room for one of the pods, and its words; None: it has for all."""
    found = []
    for pod in pods:
        said = condition(at(pod.manifest, "status"), "PodScheduled")
        if pod.counts and not pod.placed and said.get("reason") == "Unschedulable":
            since = parse_time(text(said.get("lastTransitionTime")))
            if since is not None:
                found.append((since, text(said.get("message"))))
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
