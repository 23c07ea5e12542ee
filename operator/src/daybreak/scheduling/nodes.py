"""Nodes as places for pods: what they offer, whom they let in, and how many of a kind they take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from daybreak.api.common.unstructured import Manifest, mappings, text
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalars import parse_quantity


@dataclass(frozen=True)
class Node:
    """The parts of a node that decide whether a pod fits."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Manifest, ...]
    allocatable: Mapping[str, str]
    unschedulable: bool = False


_NODE_STATE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that say how a node does at the moment; they come and go by themselves."""
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class NodeCapacity:
    """A node, read once."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    """Those that keep pods out for longer than a node's bad moment."""
    offers: Mapping[str, Decimal]
    """Allocatable amount of each resource in its base unit: cores, bytes, devices."""
    cordoned: bool

    def offer(self, resource: str) -> Decimal:
        """Allocatable amount of a resource; 0 when it has none."""
        return self.offers.get(resource, _NOTHING)


@dataclass(frozen=True)
class Apart:
    """A way to have the accelerators of a pod in smaller pods."""

    devices: int
    """Most of them that a pod has then."""
    how: str


@dataclass(frozen=True)
class Terms:
    """In whose words a pod's needs are told, and where its spec says them: what advice is given in.

    The defaults are those of a kind whose spec has models.
    """

    who: str
    """The pod, as the subject of a sentence."""
    noun: str = "model"
    """What stands behind it."""
    fields: str = "accelerator"
    """Where in the spec `nodeSelector` and `tolerations` stand."""
    resource: str = "accelerator.resource"
    """Where the accelerator's resource is named."""
    without: str = "use accelerator kind: cpu for a small model"
    """How to do without accelerators."""
    sizes: str = "resources.{}"
    """Where `cpu` and `memory` stand, with `{}` in the place of the one that is meant."""
    template: str = "podTemplate"
    """Where other resources stand."""
    fewer: str = "use a smaller parallelism"
    """How to ask for fewer accelerators in one pod."""
    fewer_pods: str = "use a smaller parallelism.pipeline"
    """How to ask for fewer pods of one replica."""
    apart: tuple[Apart, ...] | None = None
    """Ways to have smaller pods, the nearest first; None: parallelism says them."""
    container: str = "ray-worker"
    """Name of the pod's container that Daybreak makes."""


@dataclass(frozen=True)
class Demand:
    """What one pod asks of a node."""

    terms: Terms
    """In whose words it is told."""
    requests: Mapping[str, Decimal]
    selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    device: str = ""
    """The accelerator's resource; empty when none is asked for."""

    @property
    def devices(self) -> int:
        """How many accelerators it asks for."""
        return int(self.requests.get(self.device, _NOTHING))

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for equal demands."""
        return (
            self.terms,
            tuple(self.requests.items()),
            tuple(sorted(self.selector.items())),
            tuple((each.key, each.operator, each.value, each.effect) for each in self.tolerations),
        )


def capacity(node: Node) -> NodeCapacity:
    """Read a node."""
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
    """Nodes that have the labels asked for."""
    wanted = demand.selector.items()
    return [each for each in capacities if all(each.labels.get(key) == value for key, value in wanted)]


def lets_in(place: NodeCapacity, demand: Demand) -> bool:
    """Whether the node takes new pods, and these."""
    return not place.cordoned and not untolerated(place, demand)


def untolerated(place: NodeCapacity, demand: Demand) -> list[Mapping[str, Any]]:
    """Taints that keep the pod out.

    A taint named like a resource that the pod asks for is none: Kubernetes' ExtendedResourceToleration
    admission, on in most managed clusters, adds that toleration.
    """
    return [
        taint
        for taint in place.taints
        if text(taint.get("key")) not in demand.requests
        and not any(_tolerates(each, taint) for each in demand.tolerations)
    ]


def times(place: NodeCapacity, demand: Demand) -> int:
    """How many such pods the node takes when it is empty."""
    return min(
        (int(place.offer(resource) // amount) for resource, amount in demand.requests.items() if amount),
        default=1,
    )


def places(capacities: Sequence[NodeCapacity], demand: Demand) -> int:
    """How many such pods all nodes take together."""
    return sum(times(each, demand) for each in chosen(capacities, demand) if lets_in(each, demand))


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.get("value") or "")
