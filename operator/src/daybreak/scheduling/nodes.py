"""Nodes as targets for pods: their offers, the pods that they accept, and the number of pods that fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from daybreak.api.common.unstructured import Manifest, mappings, text
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalars import parse_quantity


@dataclass(frozen=True)
class Node:
    """The fields of a node that decide whether a pod fits."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Manifest, ...]
    allocatable: Mapping[str, str]
    unschedulable: bool = False


_NODE_STATE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints for the temporary state of a node, which are set and removed automatically."""
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class NodeCapacity:
    """A node in parsed form."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    """Taints that keep pods out for longer than a temporary state of the node."""
    offers: Mapping[str, Decimal]
    """Allocatable amount of each resource in its base unit: CPUs, bytes, devices."""
    cordoned: bool

    def offer(self, resource: str) -> Decimal:
        """Return the allocatable amount of a resource, or 0 if the node has none."""
        return self.offers.get(resource, _NOTHING)


@dataclass(frozen=True)
class Split:
    """A way to split the accelerators of a pod over smaller pods."""

    devices: int
    """Maximum number of accelerators of one pod after the split."""
    how: str


@dataclass(frozen=True)
class Terms:
    """Terms of a kind for messages about the fit of its pods: nouns, paths of spec fields and advice.

    The defaults are for a kind whose spec has models.
    """

    who: str
    """The pod, as the subject of a sentence."""
    noun: str = "model"
    """Noun for the part of the workload that the pod belongs to."""
    fields: str = "accelerator"
    """Path of `nodeSelector` and `tolerations` in the spec."""
    resource: str = "accelerator.resource"
    """Path of the accelerator's resource."""
    without: str = "use accelerator kind: cpu for a small model"
    """Advice for a pod without accelerators."""
    sizes: str = "resources.{}"
    """Path of `cpu` and `memory`, with `{}` in place of the resource."""
    template: str = "podTemplate"
    """Path of other resources."""
    fewer: str = "use a smaller parallelism"
    """Advice for fewer accelerators in one pod."""
    fewer_pods: str = "use a smaller parallelism.pipeline"
    """Advice for fewer pods of one replica."""
    apart: tuple[Split, ...] | None = None
    """Ways to split a pod into smaller ones, the nearest first, or None if `parallelism` has them."""
    container: str = "ray-worker"
    """Name of Daybreak's container in the pod."""


@dataclass(frozen=True)
class Demand:
    """Demand of one pod on a node."""

    terms: Terms
    """Terms for messages."""
    requests: Mapping[str, Decimal]
    selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    device: str = ""
    """Resource of the accelerator. Empty if the pod requests none."""

    @property
    def devices(self) -> int:
        """Number of requested accelerators."""
        return int(self.requests.get(self.device, _NOTHING))

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that is equal for equal demands."""
        return (
            self.terms,
            tuple(self.requests.items()),
            tuple(sorted(self.selector.items())),
            tuple((each.key, each.operator, each.value, each.effect) for each in self.tolerations),
        )


def capacity(node: Node) -> NodeCapacity:
    """Parse a node."""
    offers = {}
    for resource, quantity in node.allocatable.items():
        try:
            offers[resource] = parse_quantity(str(quantity))
        except ValueError:
            continue
    taints = tuple(
        taint
        for taint in mappings(node.taints)
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not text(taint.get("key")).startswith(_NODE_STATE_TAINTS)
    )
    return NodeCapacity(node.name, node.labels, taints, offers, node.unschedulable)


def chosen(capacities: Iterable[NodeCapacity], demand: Demand) -> list[NodeCapacity]:
    """Return the nodes with the labels of the demand."""
    desired = demand.selector.items()
    return [each for each in capacities if all(each.labels.get(key) == value for key, value in desired)]


def lets_in(place: NodeCapacity, demand: Demand) -> bool:
    """Return True if the node accepts new pods, and these."""
    return not place.cordoned and not untolerated(place, demand)


def untolerated(place: NodeCapacity, demand: Demand) -> list[Mapping[str, Any]]:
    """Return the taints that keep the pod out.

    A taint named like a requested resource is ignored. Kubernetes' ExtendedResourceToleration admission
    plugin, enabled in most managed clusters, adds that toleration.
    """
    return [
        taint
        for taint in place.taints
        if text(taint.get("key")) not in demand.requests
        and not any(_tolerates(each, taint) for each in demand.tolerations)
    ]


def times(place: NodeCapacity, demand: Demand) -> int:
    """Return the number of such pods that fit on the node if it is empty."""
    return min(
        (int(place.offer(resource) // amount) for resource, amount in demand.requests.items() if amount),
        default=1,
    )


def places(capacities: Sequence[NodeCapacity], demand: Demand) -> int:
    """Return the number of such pods that fit on all nodes together."""
    return sum(times(each, demand) for each in chosen(capacities, demand) if lets_in(each, demand))


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.get("value") or "")
