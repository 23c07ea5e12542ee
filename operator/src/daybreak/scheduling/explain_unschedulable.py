"""Explain why no node accepts a pod, by the first obstacle: the need, the offer and the nearest fix."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from daybreak.api.common.unstructured import text
from daybreak.scheduling.nodes import Demand, NodeCapacity, chosen, lets_in, times, untolerated

_LISTED = 4
"""Maximum number of listed choices."""


def nowhere(capacities: Sequence[NodeCapacity], demand: Demand, split: Callable[[], str] = str) -> str:
    """Return why no node accepts the pod, or an empty string if one does.

    `split` returns how the accelerators could be spread over smaller nodes, or an empty string if they
    cannot.
    """
    if not capacities:
        return "the cluster has no nodes"
    if demand.devices and not any(capacity.offer(demand.device) for capacity in capacities):
        return _no_such_device(capacities, demand)
    candidates = chosen(capacities, demand)
    if not candidates:
        return _no_such_label(capacities, demand)
    roomy = [capacity for capacity in candidates if times(capacity, demand)]
    if any(lets_in(capacity, demand) for capacity in roomy):
        return ""
    if roomy:
        return _shut(roomy, demand)
    if demand.devices and not any(capacity.offer(demand.device) >= demand.devices for capacity in candidates):
        return _too_few_devices(candidates, demand, split())
    return _too_small(candidates, demand)


def too_few(demand: Demand, pods: int, room_for: int) -> str:
    """Return the message for a replica of several pods of which only some fit."""
    amounts = ", ".join(f"{_figure(name, amount)} {name}" for name, amount in demand.requests.items())
    return (
        f"a replica needs {pods} pods of {amounts} each; all nodes together have capacity for {room_for}: "
        f"{demand.terms.fewer_pods}, or add nodes"
    )


def _no_such_device(capacities: Sequence[NodeCapacity], demand: Demand) -> str:
    others = sorted(
        {
            name
            for capacity in capacities
            for name, offer in capacity.offers.items()
            if offer and _device(name)
        }
    )
    if others:
        fix = f"set {demand.terms.resource} to a resource that nodes have ({', '.join(others[:_LISTED])})"
    else:
        fix = f"install the device plugin that announces it, or {demand.terms.without}"
    return f"{demand.terms.who} needs {demand.devices} {demand.device}; no node has that resource: {fix}"


def _device(resource: str) -> bool:
    """Return True if a resource counts devices, such as `nvidia.com/gpu`, and is not Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource


def _no_such_label(capacities: Sequence[NodeCapacity], demand: Demand) -> str:
    change = f"change {demand.terms.fields}.nodeSelector"
    for key, value in sorted(demand.selector.items()):
        desired = f"{demand.terms.who} needs a node with label {key}={value}"
        values = sorted({capacity.labels[key] for capacity in capacities if key in capacity.labels})
        if value in values:
            continue
        if values:
            near = get_close_matches(value, values, n=1, cutoff=0.4) or values[:_LISTED]
            return f"{desired}; nodes have {key}={' or '.join(near)}: {change}"
        near = get_close_matches(
            key, sorted({name for capacity in capacities for name in capacity.labels}), n=1
        )
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{desired}; no node has a label {key}{hint}: {change}, or label a node"

    def lacking(capacity: NodeCapacity) -> list[str]:
        return [
            f"{key}={value}"
            for key, value in sorted(demand.selector.items())
            if capacity.labels.get(key) != value
        ]

    nearest = min(capacities, key=lambda capacity: len(lacking(capacity)))
    labels = " and ".join(f"{key}={value}" for key, value in sorted(demand.selector.items()))
    lacks = ", ".join(lacking(nearest))
    who = demand.terms.who
    return f"{who} needs a node with {labels}; {nearest.name} lacks {lacks}: {change}, or label a node"


def _shut(capacities: Sequence[NodeCapacity], demand: Demand) -> str:
    """Return the message for nodes that are large enough but do not accept the pod."""
    terms = demand.terms
    tainted = [capacity for capacity in capacities if not capacity.cordoned]
    if not tainted:
        some = _some(capacities)
        return f"{terms.who} fits on {some}, closed for new pods: kubectl uncordon {capacities[0].name}"
    taints = untolerated(tainted[0], demand)
    names = ", ".join(map(_taint, taints))
    add = ", ".join(map(_toleration, taints))
    return f"{terms.who} fits on {_some(tainted)}, tainted {names}: add to {terms.fields}.tolerations {add}"


def _taint(taint: Mapping[str, Any]) -> str:
    key, value, effect = (text(taint.get(part)) for part in ("key", "value", "effect"))
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _toleration(taint: Mapping[str, Any]) -> str:
    key, value, effect = (text(taint.get(part)) for part in ("key", "value", "effect"))
    how = f"operator: Equal, value: {value}" if value else "operator: Exists"
    return f"{{key: {key}, {how}, effect: {effect}}}"


def _too_few_devices(capacities: Sequence[NodeCapacity], demand: Demand, split: str) -> str:
    need, device = demand.devices, demand.device
    largest = max(capacities, key=lambda capacity: capacity.offer(device))
    most = int(largest.offer(device))
    where = " that match nodeSelector" if demand.selector else ""
    if not most:
        return (
            f"{demand.terms.who} needs {need} {device}; the nodes{where} have none: "
            f"change {demand.terms.fields}.nodeSelector"
        )
    together = sum(int(capacity.offer(device)) for capacity in capacities)
    fix = split or f"all nodes{where} together have {together}: {demand.terms.fewer}, or other nodes"
    which = f"the largest {'node that matches nodeSelector' if demand.selector else 'node'}"
    return f"{demand.terms.who} needs {need} {device} on one node; {which} has {most} ({largest.name}): {fix}"


def _too_small(capacities: Sequence[NodeCapacity], demand: Demand) -> str:
    """Return the message with the nearest node and its missing amounts."""

    def lacking(capacity: NodeCapacity) -> list[str]:
        return [name for name, amount in demand.requests.items() if capacity.offer(name) < amount]

    def nearness(capacity: NodeCapacity) -> tuple[bool, int, Decimal]:
        shares = [
            min(Decimal(1), capacity.offer(name) / amount)
            for name, amount in demand.requests.items()
            if amount
        ]
        enough_devices = not demand.devices or capacity.offer(demand.device) >= demand.devices
        return enough_devices, -len(lacking(capacity)), sum(shares, Decimal(0))

    best = max(capacities, key=nearness)
    short = lacking(best)
    wants = " and ".join(f"{_figure(name, demand.requests[name])} {name}" for name in short)
    has = " and ".join(f"{_figure(name, best.offer(name))} {name}" for name in short)
    beside = f" in addition to its {demand.devices} {demand.device}" if demand.devices else ""
    fix = " and ".join(
        demand.terms.sizes.format(name) if name in ("cpu", "memory") else f"{name} in {demand.terms.template}"
        for name in short
    )
    return (
        f"{demand.terms.who} needs {wants}{beside} on one node; the nearest, {best.name}, has {has} in all: "
        f"lower {fix}, or use a larger node"
    )


def _figure(resource: str, amount: Decimal) -> str:
    """Return an amount for display: GiB for memory, otherwise a plain number."""
    return f"{float(amount / 2**30):.3g}Gi" if resource == "memory" else f"{float(amount):.4g}"


def _some(capacities: Sequence[NodeCapacity]) -> str:
    more = len(capacities) - 1
    return f"{capacities[0].name} and {more} more" if more else capacities[0].name
