"""Whether the nodes have room for one replica of each model, and for the head, before anything is made.

What is compared is what nodes offer in all (`allocatable`), their labels and taints, not what is free at
this moment: room that is taken may become free, a GPU that is not there does not come by waiting.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from daybreak.api.kubernetes_types import Toleration
from daybreak.api.llmservice import LLMService
from daybreak.api.scalars import parse_quantity
from daybreak.api.spec import Model, Parallelism
from daybreak.lifecycle.needs import PodNeed, need_in_numbers, pods_per_replica, worker_need
from daybreak.lifecycle.observed import Node
from daybreak.lifecycle.reading import text

ANNOTATION = "daybreak.dev/fit-check"
"""On an LLMService: `off` leaves the check out, for clusters that add nodes when pods ask for them."""
OFF = "off"

AUTOSCALER_CPU = Decimal("0.1")
AUTOSCALER_MEMORY = Decimal(512 * 2**20)
"""What Ray's autoscaler, a container of the head's pod, asks for beside the head. A test holds these to
what `builders.head` writes."""

_NODE_STATE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that say how a node does at the moment; they come and go by themselves."""
_UNITS = {"memory": "Gi"}


@dataclass(frozen=True)
class Misfit:
    """Something of a service for which there is no room."""

    model: str | None
    """The model; None for the head."""
    message: str
    """The numbers and the nearest fix."""


@dataclass(frozen=True)
class _Room:
    """A node, read once."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    offers: Mapping[str, Decimal]
    cordoned: bool


@dataclass
class _Rooms:
    """Every node, and what was found out about them: many services ask the same."""

    nodes: tuple[Node, ...]
    rooms: tuple[_Room, ...]
    known: dict[Any, str] = field(default_factory=dict)


_last = _Rooms((), ())
"""The nodes of the last call. They seldom change, and are the same tuple as long as they do not."""


def fit(svc: LLMService, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
    """What of the service fits on no node; empty when a replica of every model has room."""
    rooms = _read(nodes)
    found = []
    head = svc.spec.runtime.head
    need = {
        "cpu": parse_quantity(head.resources.cpu) + AUTOSCALER_CPU,
        "memory": parse_quantity(head.resources.memory) + AUTOSCALER_MEMORY,
    }
    wrong = _known(
        rooms,
        ("head", *need.values(), *_place(head.node_selector, head.tolerations)),
        lambda: _head(rooms.rooms, need, head.node_selector, head.tolerations),
    )
    if wrong:
        found.append(Misfit(None, f"head: {wrong}"))
    for model in svc.spec.models:
        pod, pods = worker_need(model), pods_per_replica(model)
        wrong = _known(
            rooms,
            (
                pods,
                model.parallelism.tensor,
                model.parallelism.pipeline,
                *pod.requests.items(),
                *_place(pod.node_selector, pod.tolerations),
            ),
            lambda model=model, pod=pod, pods=pods: _replica(rooms.rooms, model, pod, pods),  # type: ignore[misc]
        )
        if wrong:
            found.append(Misfit(model.name, f"model {model.name}: {wrong}"))
    return tuple(found)


def _known(rooms: _Rooms, key: Any, find: Callable[[], str]) -> str:
    if key not in rooms.known:
        if len(rooms.known) > 1000:
            rooms.known.clear()
        rooms.known[key] = find()
    return rooms.known[key]


def _place(selector: Mapping[str, str], tolerations: Iterable[Toleration]) -> tuple[Any, ...]:
    """The same for equal demands on a node's labels and taints."""
    return (
        tuple(sorted(selector.items())),
        tuple((each.key, each.operator, each.value, each.effect) for each in tolerations),
    )


def _read(nodes: tuple[Node, ...]) -> _Rooms:
    global _last
    if _last.nodes is not nodes:
        _last = _Rooms(nodes, tuple(_room(node) for node in nodes))
    return _last


def _room(node: Node) -> _Room:
    offers = {}
    for resource, quantity in node.allocatable.items():
        try:
            offers[resource] = parse_quantity(str(quantity))
        except ValueError:
            continue
    taints = tuple(
        taint
        for taint in node.taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not text(taint.get("key")).startswith(_NODE_STATE_TAINTS)
    )
    return _Room(node.name, node.labels, taints, offers, node.unschedulable)


def _head(
    rooms: Sequence[_Room],
    need: Mapping[str, Decimal],
    selector: Mapping[str, str],
    tolerations: Sequence[Toleration],
) -> str:
    return _nowhere(
        rooms,
        need,
        selector,
        tolerations,
        who="it",
        fields="spec.runtime.head",
        lower=lambda short: f"lower spec.runtime.head.resources.{short}",
    )


def _replica(rooms: Sequence[_Room], model: Model, pod: PodNeed, pods: int) -> str:
    need = need_in_numbers(pod)
    wrong = _nowhere(
        rooms,
        need,
        pod.node_selector,
        pod.tolerations,
        who="a replica" if pods == 1 else f"each of the {pods} pods of a replica",
        fields="accelerator",
        lower=lambda short: f"lower resources.{short}",
        split=lambda most, fitting: _split(model, pods, most, fitting),
        resource=model.accelerator.resource,
    )
    if wrong or pods == 1:
        return wrong
    free = [room for room in _open(_chosen(rooms, pod.node_selector), pod.tolerations, need)]
    places = sum(_times(room, need) for room in free)
    if places >= pods:
        return ""
    return (
        f"a replica needs {pods} pods of {_demand(need, pod)}; the nodes have room for {places} of them "
        f"together: use a smaller parallelism.pipeline, or more nodes"
    )


def _nowhere(
    rooms: Sequence[_Room],
    need: Mapping[str, Decimal],
    selector: Mapping[str, str],
    tolerations: Sequence[Toleration],
    *,
    who: str,
    fields: str,
    lower: Callable[[str], str],
    split: Callable[[int, Sequence[_Room]], str] | None = None,
    resource: str = "",
) -> str:
    """Why no node takes a pod, said of the first thing that is in the way; empty when one does."""
    if not rooms:
        return "the cluster has no nodes"
    if resource in need and not any(room.offers.get(resource) for room in rooms):
        return _no_such_resource(rooms, need[resource], resource, who)
    chosen = _chosen(rooms, selector)
    if not chosen:
        return _no_such_label(rooms, selector, fields, who)
    free = _open(chosen, tolerations, need)
    if any(_times(room, need) for room in free):
        return ""
    shut = [room for room in chosen if room not in free and _times(room, need)]
    if shut:
        return _shut(shut, tolerations, fields, who)
    where = " that match nodeSelector" if selector else ""
    if resource in need:
        largest = max(chosen, key=lambda room: room.offers.get(resource, Decimal(0)))
        most = int(largest.offers.get(resource, Decimal(0)))
        if most < need[resource]:
            fix = split(most, chosen) if split else ""
            if not most:
                return (
                    f"{who} needs {need[resource]} {resource}; none of the nodes{where} has any: "
                    f"change {fields}.nodeSelector"
                )
            return (
                f"{who} needs {need[resource]} {resource} on one node; the largest{' node' + where} has "
                f"{most} ({largest.name}){fix}"
            )
    return _too_small(free or chosen, need, resource, where, who, lower)


def _chosen(rooms: Iterable[_Room], selector: Mapping[str, str]) -> list[_Room]:
    return [room for room in rooms if all(room.labels.get(key) == value for key, value in selector.items())]


def _open(
    rooms: Iterable[_Room], tolerations: Sequence[Toleration], need: Mapping[str, Decimal]
) -> list[_Room]:
    return [room for room in rooms if not room.cordoned and not _untolerated(room, tolerations, need)]


def _untolerated(
    room: _Room, tolerations: Sequence[Toleration], need: Mapping[str, Decimal]
) -> list[Mapping[str, Any]]:
    return [
        taint
        for taint in room.taints
        # Kubernetes' ExtendedResourceToleration admission lets those in who ask for the resource.
        if text(taint.get("key")) not in need and not any(_tolerates(each, taint) for each in tolerations)
    ]


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.get("value") or "")


def _times(room: _Room, need: Mapping[str, Decimal]) -> int:
    """How many such pods an empty node takes."""
    return min(
        (int(room.offers.get(resource, Decimal(0)) // amount) for resource, amount in need.items() if amount),
        default=1,
    )


def _split(model: Model, pods: int, most: int, rooms: Sequence[_Room]) -> str:
    """The nearest way to spread a replica over smaller nodes."""
    total = model.parallelism.tensor * model.parallelism.pipeline
    resource = model.accelerator.resource
    if not most:
        return ""
    tensor = max(each for each in range(1, min(most, total) + 1) if total % each == 0)
    pipeline = total // tensor
    places = sum(int(room.offers.get(resource, Decimal(0))) // tensor for room in rooms)
    if places < pipeline:
        together = sum(int(room.offers.get(resource, Decimal(0))) for room in rooms)
        return f", and all nodes together have {together}: use a smaller parallelism, or add nodes"
    if Parallelism(tensor=tensor, pipeline=pipeline) == model.parallelism:
        return ": use placement: PACK, so that each pipeline stage gets a pod of its own"
    return f": use parallelism pipeline: {pipeline} with tensor: {tensor}"


def _no_such_resource(rooms: Sequence[_Room], amount: Decimal, resource: str, who: str) -> str:
    others = sorted(
        {
            name
            for room in rooms
            for name, offer in room.offers.items()
            if offer and "/" in name and not name.startswith(("hugepages", "attachable-volumes"))
        }
    )
    has = f"set accelerator.resource to what they have ({', '.join(others[:4])})" if others else ""
    fix = has or "install the device plugin that announces it, or use accelerator kind: cpu for a small model"
    return f"{who} needs {amount} {resource}; no node has that resource: {fix}"


def _no_such_label(rooms: Sequence[_Room], selector: Mapping[str, str], fields: str, who: str) -> str:
    for key, value in sorted(selector.items()):
        values = {room.labels[key] for room in rooms if key in room.labels}
        if value in values:
            continue
        if values:
            near = get_close_matches(value, sorted(values), n=1, cutoff=0.4)
            have = near[0] if near else ", ".join(sorted(values)[:4])
            return (
                f"{who} needs a node with label {key}={value}; nodes have {key}={have}: "
                f"change {fields}.nodeSelector"
            )
        keys = sorted({name for room in rooms for name in room.labels})
        near = get_close_matches(key, keys, n=1, cutoff=0.6)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return (
            f"{who} needs a node with label {key}={value}; no node has a label {key}{hint}: "
            f"change {fields}.nodeSelector, or label a node"
        )
    wanted = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
    closest = max(
        rooms, key=lambda room: sum(room.labels.get(key) == value for key, value in selector.items())
    )
    lacking = next(
        f"{key}={value}" for key, value in sorted(selector.items()) if closest.labels.get(key) != value
    )
    return (
        f"{who} needs a node with the labels {wanted}; none has them all, and {closest.name} lacks "
        f"{lacking}: change {fields}.nodeSelector"
    )


def _shut(rooms: Sequence[_Room], tolerations: Sequence[Toleration], fields: str, who: str) -> str:
    """Nodes that would do, but do not let the pod in."""
    tainted = [room for room in rooms if not room.cordoned]
    if not tainted:
        return f"{who} fits on {_some(rooms)}, which is cordoned: kubectl uncordon {rooms[0].name}"
    taint = _untolerated(tainted[0], tolerations, {})[0]
    key, value, effect = (text(taint.get(part)) for part in ("key", "value", "effect"))
    written = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    operator = f"operator: Equal, value: {value}" if value else "operator: Exists"
    return (
        f"{who} fits on {_some(tainted)}, tainted {written}: add to {fields}.tolerations "
        f"{{key: {key}, {operator}, effect: {effect}}}"
    )


def _too_small(
    rooms: Sequence[_Room],
    need: Mapping[str, Decimal],
    resource: str,
    where: str,
    who: str,
    lower: Callable[[str], str],
) -> str:
    """The node that comes nearest, and what it lacks."""

    def lacking(room: _Room) -> list[str]:
        return [name for name, amount in need.items() if room.offers.get(name, Decimal(0)) < amount]

    def nearness(room: _Room) -> tuple[int, Decimal]:
        shares = [
            min(Decimal(1), room.offers.get(name, Decimal(0)) / amount)
            for name, amount in need.items()
            if amount
        ]
        return -len(lacking(room)), sum(shares, Decimal(0))

    with_devices = [
        room
        for room in rooms
        if resource not in need or room.offers.get(resource, Decimal(0)) >= need[resource]
    ]
    best = max(with_devices or rooms, key=nearness)
    short = [name for name in lacking(best) if name != resource]
    wants = " and ".join(f"{_figure(name, need[name])} {name}" for name in short)
    has = " and ".join(f"{_figure(name, best.offers.get(name, Decimal(0)))} {name}" for name in short)
    beside = f" beside its {need[resource]} {resource}" if resource in need else ""
    fix = " and ".join(map(lower, short))
    return f"{who} needs {wants}{beside}; the nearest node{where} has {has} ({best.name}): {fix}"


def _demand(need: Mapping[str, Decimal], pod: PodNeed) -> str:
    return ", ".join(f"{_figure(name, amount)} {name}" for name, amount in need.items())


def _figure(resource: str, amount: Decimal) -> str:
    """An amount as people write it: GiB for memory, cores otherwise."""
    if resource == "memory":
        return f"{float(amount / 2**30):.3g}Gi"
    return f"{float(amount):.4g}"


def _some(rooms: Sequence[_Room]) -> str:
    more = len(rooms) - 1
    return rooms[0].name if not more else f"{rooms[0].name} and {more} more"
